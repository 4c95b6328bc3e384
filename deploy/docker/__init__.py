"""The image of the monitor."""
