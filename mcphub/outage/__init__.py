"""Owns what takes away the ways to other machines for a while: networks that go and come, and sleep.

It must not know servers or connections: it says what there is, and when to look again. Start at ways.py.
"""
