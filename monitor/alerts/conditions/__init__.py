"""Decides in process whether something is wrong: one module for each question, findings out."""
