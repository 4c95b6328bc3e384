"""How a dialect writes a span; one file a dialect."""
