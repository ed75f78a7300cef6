"""WebSockets, passed on as bytes."""
