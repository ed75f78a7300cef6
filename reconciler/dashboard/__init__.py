"""The dashboard: static files, which hold no data, and the routes that serve them."""

from reconciler.dashboard.files import PATHS
from reconciler.dashboard.routes import Dashboard

__all__ = ["PATHS", "Dashboard"]
