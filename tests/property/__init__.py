"""Rules that hold for whatever is sent: properties over recorded traffic and over invented values."""
