"""Navigation meshes: the walkable area of a scene, and movement and distances on it."""

from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.system.compilation import announce_compiling

__all__ = ["NavMesh", "NavMeshSettings"]

announce_compiling()
