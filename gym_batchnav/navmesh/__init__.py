"""Where one can walk."""

from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings

__all__ = ["NavMesh", "NavMeshSettings"]
