"""Owns what leaves the daemon for people who watch it: log records, redacted and escaped.

It must not know any server, session or protocol; callers hand it plain fields. Start at logging.py.
"""
