"""Owns the counterparts that tests script at will: a server, an agent and a running hub.

It must not import mcphub: a fake that shared its code would share its mistakes.
"""
