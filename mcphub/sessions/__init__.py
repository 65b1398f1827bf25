"""Owns the agents attached to mcphub: their socket, their framing, their era, their subscriptions.

It must not know how a server is reached, and it never imports control. Start at session.py.
"""
