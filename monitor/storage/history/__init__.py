"""The history of results: `rows` are their form as JSON; `tables`, `writer`, `reader` and `erasing` are the file."""
