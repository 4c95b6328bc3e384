"""How good an evaluator is on labelled data."""
