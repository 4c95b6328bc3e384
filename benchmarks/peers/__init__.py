"""This product beside others: what the same traces, and the same judgement, cost each of them."""
