"""The operator: watches with kopf, decides with protocol, writes through kube, and says what it did."""
