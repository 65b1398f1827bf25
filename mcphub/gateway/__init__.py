"""Owns a call's way from an agent to a server and back, whatever era either speaks.

It must not know sockets, processes or configuration files. Start at dispatch.py, then call.py.
"""
