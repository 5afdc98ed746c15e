"""Where one can walk."""

from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.system.compilation import announce_compiling

__all__ = ["NavMesh", "NavMeshSettings"]

announce_compiling()
