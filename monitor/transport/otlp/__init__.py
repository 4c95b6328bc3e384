"""Decode, limit and answer OTLP, for both OTLP sources and Kafka."""
