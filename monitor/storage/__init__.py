"""Everything on disk: SQLite files, the spool of deliveries, the history of results, the request log."""
