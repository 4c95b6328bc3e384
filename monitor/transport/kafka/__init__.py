"""Connect to Apache Kafka, for the source and the sink: connection, offsets, consumer, producer."""
