"""Interaction with the machine: optional extras, processes, compilation, progress, files."""
