"""Chaos: servers of every transport are killed, stopped, cut off and made to lie while agents of both eras call.

`python -m tests.e2e.chaos --minutes 10` is the long run. Start at __main__.py.
"""
