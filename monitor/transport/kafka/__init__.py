"""Apache Kafka, as the source and the sink share it: connection, offsets, consumer, producer."""
