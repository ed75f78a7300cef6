"""A first manifest for a machine: which models lie on its disks, which engines serve them, and what fits."""
