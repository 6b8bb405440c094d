"""The control plane of hack/cluster: one for each person, in the background, until it is taken down."""
