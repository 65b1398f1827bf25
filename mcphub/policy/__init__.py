"""Owns the answer to whether a server may run and a tool may be called: rules, approval of projects, pinned tools.

It must not read files, start anything or know a transport. Start at decide.py for rules, approval.py for what a
repository brings; a new way to name servers in a rule is one file in matchers/ and one line there.
"""
