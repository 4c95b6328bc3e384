"""One file a command; `main` gathers them."""
