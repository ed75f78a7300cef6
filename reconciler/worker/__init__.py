"""Serves a class of the user's over HTTP, in a process and an environment of the user's.

Nothing of reconcile is installed there: the package needs Python 3.9 and its standard library, and imports itself by
relative names only, because `__main__.py` loads it under a name that cannot hide a package of the user's.
"""
