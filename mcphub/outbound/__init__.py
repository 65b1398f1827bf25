"""Owns the way to other machines: proxies, trust, connections, what their failures are called, and compressed bodies.

It must not know requests, MCP, or who asks. Start at mcphub/net.py, the client that puts these together. Like it they
import httpx2 and httpcore2, and are imported themselves only when a remote server is opened.
"""
