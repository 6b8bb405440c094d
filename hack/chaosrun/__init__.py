"""Faults against the whole system, the history of what everybody said, believed and did, and the check of it."""
