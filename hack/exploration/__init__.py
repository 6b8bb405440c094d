"""Explores all that can happen in a small scope: the decisions that ship, under the rules and policies that ship."""
