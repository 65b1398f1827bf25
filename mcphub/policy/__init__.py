"""Owns the answer to whether a server may run: today approval of what a repository brings.

It must not read files, start anything or know a transport. Start at approval.py.
"""
