"""Recorded traffic of two small RAG services, and what replays it."""
