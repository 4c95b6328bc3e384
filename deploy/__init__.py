"""Manifests for where it runs, and what writes the generated ones among them."""
