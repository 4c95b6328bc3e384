"""Turn a trace or a row into a case, with tolerant readers that every dialect shares."""
