"""Sources of traces; one file per source, named after its `type`."""
