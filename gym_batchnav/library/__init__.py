"""The K scenes that N agents share: slots, rotation plan, loader, sources, recipes and cache."""
