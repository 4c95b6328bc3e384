"""Who is judged; one file a sampler, named after its `type`."""
