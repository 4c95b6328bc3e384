"""Sinks for results; one file per sink, named after its `type`."""
