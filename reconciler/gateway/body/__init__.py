"""Bodies of requests: read within limits, understood as far as needed."""
