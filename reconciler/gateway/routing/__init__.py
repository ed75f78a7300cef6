"""Virtual models: which of several answers a request."""
