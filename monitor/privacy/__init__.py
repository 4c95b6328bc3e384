"""Personal data: find it, mask it, pseudonymise users, erase on request, and audit who read texts."""
