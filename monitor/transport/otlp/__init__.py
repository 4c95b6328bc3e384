"""What both OTLP sources and Kafka share: decoding, limits, authentication, status."""
