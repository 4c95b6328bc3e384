"""A server of any kind: where it listens, for whom, encrypted how. What the receivers and the metrics port share."""
