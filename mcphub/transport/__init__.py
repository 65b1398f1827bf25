"""Owns how bytes reach a server and come back: framing, processes, in-process servers.

It must not know what a message means, nor states, retries or agents. Start at wire.py.
"""
