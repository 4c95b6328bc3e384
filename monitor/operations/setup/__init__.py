"""Proposes a first configuration from what is found: servers, keys, frameworks, and recorded traffic."""
