"""Owns the tests; the folders below mirror mcphub/, and each is a package so that two files may share a name.

It must not hold code: what tests share lives in fakes/ and conftest.py.
"""
