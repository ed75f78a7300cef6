"""Moving in: what other programs were told of models, as a manifest of ours and a report of what it could not say."""
