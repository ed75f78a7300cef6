"""Who may call: Host, Origin, keys and their scopes."""
