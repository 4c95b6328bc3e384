"""Addresses, TLS, tokens and time limits for every HTTP server and client."""
