"""From a trace or a row to a case, with tolerant readers that every dialect shares."""
