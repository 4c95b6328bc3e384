"""Value types shared by all wings: frozen, without I/O."""
