"""The API's group and version."""

GROUP = "worklease.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
