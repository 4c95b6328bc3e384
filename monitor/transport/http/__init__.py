"""Share what every HTTP server and client here needs: addresses, TLS, tokens and time limits."""
