"""HTTP, OTLP and Kafka: servers, clients, wire formats, TLS and authentication."""
