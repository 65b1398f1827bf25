"""Owns the merged toolset: exposed names and rendered lists, computed from a snapshot.

It must not know sessions, calls in flight or processes. Start at toolset.py.
"""
