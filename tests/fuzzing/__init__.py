"""Fuzzing: damaged files of every kind are loaded, and those that load are walked and drawn, in limited processes."""
