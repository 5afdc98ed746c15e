"""Preparation of scenes for agents: navmesh, distances and episodes, made ahead of time by worker processes."""
