"""How good an evaluator is, by labelled answers: pure functions of its scores, the labels, and a random generator.

A score becomes a danger, the higher the more surely defective, whichever end of the evaluator's scale is good.
"""
