"""Values: frozen, without I/O."""
