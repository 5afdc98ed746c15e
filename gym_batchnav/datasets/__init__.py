"""Known datasets of scenes and episodes: their sources, the layout of their folders, and checks of copies."""
