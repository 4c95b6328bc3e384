"""The built-in page."""
