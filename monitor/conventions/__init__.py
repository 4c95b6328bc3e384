"""Read spans in the dialects of instrumentations, one file for each dialect."""
