"""Everything that commands draw with: text, tables, bars, progress, the live view of a running monitor."""
