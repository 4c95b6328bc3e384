"""Read traces from sources, one file for each source, named after its `type`."""
