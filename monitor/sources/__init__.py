"""Where traces come from; one file a source, named after its `type`."""
