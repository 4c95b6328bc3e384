"""Provide addresses, TLS, tokens and time limits for every server and client that speaks HTTP."""
