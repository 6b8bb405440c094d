"""What several tests share: a plain client for the API server, identities, and waiting for a condition."""
