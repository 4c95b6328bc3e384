"""Introspection: explains requests and the state of evaluators."""
