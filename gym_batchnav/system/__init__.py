"""Support for interaction with the machine: optional extras, processes, compilation, progress and files."""
