"""The side towards the engines: a client of our own, chosen by measurement."""
