"""Owns the answers to what people ask about configuration: why, what would be, what there is, what is wrong with it.

It must not decide anything: every answer is told from the values that decide. Start at explain.py.
"""
