"""Sending to receivers: addresses, client TLS, and OTLP export."""
