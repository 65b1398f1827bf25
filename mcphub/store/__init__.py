"""Owns the files that mcphub itself writes: each has a version, is replaced atomically and keeps its mode.

It must not know what the values mean, nor who asks for them. Start at atomicfile.py.
"""
