"""The benchmark: mcphub's speed as ratios within one run. `python tests/bench/run.py` prints every goal.

It must not be imported by mcphub, nor time anything inside the test-suite.
"""
