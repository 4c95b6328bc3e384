"""Measures the quality of an evaluator on labelled answers. Pure functions of scores, labels and a random generator.

Scores are turned into dangers: the higher, the more likely defective, whichever end of the scale is good.
"""
