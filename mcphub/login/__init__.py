"""Owns a person's side of signing in: where the browser comes back to, the page that an agent can send a person to, and
which sign-ins are under way.

It must not know how tokens are had, nor open a browser by itself. Start at logins.py.
"""
