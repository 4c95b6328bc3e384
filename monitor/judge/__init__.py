"""The one place that calls a language model."""
