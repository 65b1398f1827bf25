"""Owns the tests that start a real daemon and real servers, and see only what an agent or a person sees.

It must not import mcphub: these tests hold the outside, whatever is inside.
"""
