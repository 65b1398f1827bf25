"""Owns the MCP wire, both eras, as pure functions and steppers over bytes and values (sans-IO).

It must not open, read or await anything. Start at jsonrpc.py, then era.py.
"""
