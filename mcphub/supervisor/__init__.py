"""Owns the set of workers: compares what is wanted with what runs and publishes a snapshot.

It must not know the protocol, the toolset or any agent. Start at reconcile.py.
"""
