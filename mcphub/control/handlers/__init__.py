"""Owns the handlers of the control API, one noun a file, as thin translations to the Hub protocol.

It must not know sockets or HTTP servers; control/routes.py lists them.
"""
