"""A world in memory for the same core: what a manifest would have done with a trace of requests."""
