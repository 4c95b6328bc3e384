"""Where results go; one file a sink, named after its `type`."""
