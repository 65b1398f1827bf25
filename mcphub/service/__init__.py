"""Owns the daemon as a service of this system's service manager: the files that say so, and asking it to run them.

It must not know what the daemon does.
"""
