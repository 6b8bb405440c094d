"""Every exception that worklease raises on purpose, with what it means for the caller."""


class WorkleaseError(Exception):
    """The base of all of them."""
