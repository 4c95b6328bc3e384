"""One file a board; each has a `board()`."""
