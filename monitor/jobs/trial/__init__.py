"""One evaluator on one case, several times, apart from all that is live: for `rag-monitor try` and for the page."""
