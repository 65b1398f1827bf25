"""Owns HTTP as a server: connections with limits, requests that end when nobody waits for them, an orderly stop.

It must not know what is served; control serves people on it, sessions serve agents. Start at serve.py.
"""
