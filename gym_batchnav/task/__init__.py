"""Tasks, sensors and measures."""
