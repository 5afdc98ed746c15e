"""A training run: settings, presets, checkpoints, logs and workers."""
