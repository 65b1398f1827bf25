"""Owns the way from files to a resolved set of servers: parse, expand, layer, resolve.

It must not know policy decisions, processes or the wire. Start at resolve.py; SOURCES in sources/__init__.py is the
order of precedence, document.py reads a file, entries/ one entry of it.
"""
