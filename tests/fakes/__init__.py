"""Owns the counterparts that tests script at will: a server, an agent and a running hub.

It must not hold tests; a fake of a peer imports nothing of mcphub, or it would share its mistakes.
"""
