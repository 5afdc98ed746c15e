"""Small things about the machine: optional extras, processes, progress, storage."""
