"""The one door to the API server: credentials, requests with deadlines, the swap, the watch."""
