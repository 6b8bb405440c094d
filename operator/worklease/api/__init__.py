"""What the API server stores and refuses: models of WorkLease and Handoff, their CEL rules, policies and roles."""
