"""Models as Python classes; `engine: python` in models.yaml names them. They import nothing of reconcile."""
