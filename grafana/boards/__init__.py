"""One file per dashboard; each has a `board()`."""
