"""From rates to people."""
