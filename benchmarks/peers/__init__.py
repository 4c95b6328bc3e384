"""This product and others: the cost of the same traces, and of the same judgement, for each of them."""
