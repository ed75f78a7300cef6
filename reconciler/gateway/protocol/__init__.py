"""The side towards clients: HTTP/1.1 with its limits."""
