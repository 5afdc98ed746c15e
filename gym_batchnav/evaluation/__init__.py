"""Evaluation: run every episode exactly once, and compute measures with confidence intervals. Does not need torch."""
