"""Owns one connection to one server: its state machine, its worker task, its requests.

It must not know other servers, agents or configuration files. Start at machine.py, then worker.py.
"""
