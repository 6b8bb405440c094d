"""The holder's and the target's side of the protocol."""
