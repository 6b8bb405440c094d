"""The command worklease: what people and shells say to the API server."""
