"""llama-swap's configuration, read as llama-swap reads it (v250 and the months after), and said as a manifest."""
