"""What the monitor says about itself."""
