"""Evaluation: every episode exactly once, the measures of each, and intervals for their means. It needs no torch."""
