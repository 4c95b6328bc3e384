"""Proposes a first configuration from what is there: servers, keys, frameworks, and recorded traffic."""
