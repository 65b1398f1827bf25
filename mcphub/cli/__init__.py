"""Owns the command line: one verb a file, listed in commands/__init__.py.

It must not import the daemon except in commands/serve.py, nor anything heavy before the verb needs it.
Start at main.py.
"""
