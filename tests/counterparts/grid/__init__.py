"""The grid: every official client with every official server over HTTP, through the hub, feature by feature."""
