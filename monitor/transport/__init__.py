"""What is sent to receivers that people run: by which address, over which TLS, and OTLP."""
