"""Samplers decide which cases to evaluate. One file per sampler, named after its `type`."""
