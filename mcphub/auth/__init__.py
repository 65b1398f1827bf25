"""Owns where credentials for servers come from that stand in no file.

It must not know transports, states or agents.
"""
