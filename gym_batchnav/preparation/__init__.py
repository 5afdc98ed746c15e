"""A scene becomes ready to walk in: its navmesh, distances and episodes, made ahead by worker processes."""
