"""Two states of a manifest side by side: what was written differently, and what would come of it."""
