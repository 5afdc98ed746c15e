"""A scene becomes ready to walk in: navmesh, geodesic tables and episodes."""
