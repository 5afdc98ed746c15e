"""Adapters to other RL libraries. Each module imports its library, and only when the module itself is imported."""
