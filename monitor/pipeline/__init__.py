"""The way of the data: bounded channels, intake, evaluation."""
