"""worklease: a lease on work, not ownership of it, for agents on Kubernetes."""

__version__ = "0.1.0"
