"""What hack/bench measures, each side by side with something that everybody knows, on the same server in one run."""
