"""The decisions, as pure functions of what they are handed, the time included: no I/O, no clock, no randomness."""
