"""Owns the control API for people: HTTP on control.sock, one table of routes with their access.

It must not be reachable from an agent's session. Start at routes.py.
"""
