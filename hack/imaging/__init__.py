"""The container image without a container engine: a root file system, and the archive that engines import."""
