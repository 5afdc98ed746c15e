"""Evaluation: every episode once, measures with intervals."""
