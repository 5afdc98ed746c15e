"""Choosing settings for speed from the log of runs: a conservative model, candidates, and the choice among them."""
