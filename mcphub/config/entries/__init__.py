"""Owns what one entry of a configuration file means: expanded and checked, a server spec or a problem.

It must not know which scope wins, or judge whether a server may run. Start at entry.py; a new transport is one file
here, its name and keys in kinds.py, and one line in entry.py.
"""
