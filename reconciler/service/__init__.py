"""Running as a service: the unit of systemd or launchd that starts the loop, keeps it up, and stops it gently."""
