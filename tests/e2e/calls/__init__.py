"""Calls that are counted on both sides, while servers are killed: each ends once, each write happens at most once.

`python -m tests.e2e.calls --calls 1000000` is the long run. Start at __main__.py.
"""
