"""Owns nothing but the version; the parts of mcphub live in the packages below it.

It must not import any of them: `mcphub connect` starts in milliseconds because this file is empty.
docs/architecture.md is the map; start there, then at mcphub/daemon.py, which wires the packages together.
"""

__version__ = "0.1.0"
