"""Packs the command `worklease` as a plugin of kubectl: what is in the archives, and the manifest for krew."""
