"""What the monitor can say about the requests in progress and about its evaluators."""
