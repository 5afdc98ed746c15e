"""The memory that a scene takes while it is resident."""

from __future__ import annotations

from gym_batchnav.render.embree.device import FAST_TREE_BYTES, MANY_TRIANGLES, TREE_BYTES
from gym_batchnav.render.opengl.prepare import DEVICE_BUFFERS
from gym_batchnav.render.records import TRIANGLE_WORDS

_SIDE = 512  # of the textures of renderers, for pictures of more than 64 pixels per side
_TREE_INPUTS = 13  # bytes per triangle that Embree reads in place


def resident_cost(num_triangles: int, num_vertices: int, num_textures: int, texture_bytes: int) -> dict[str, int]:
    """Return the bytes that a resident scene takes: main memory with Embree and with OpenGL, and memory of the GPU.

    This holds for depth and rgb of more than 64 pixels per side, and for scenes with uvs and vertex colours. The
    navmesh, distances and episodes come on top, mostly some megabytes. ``texture_bytes`` are those of the textures in
    main memory, after they were scaled down.
    """
    scene = (12 + 8) * num_triangles + (12 + 8 + 4) * num_vertices + texture_bytes
    mips = num_textures * (4 * _SIDE**2 * 4 // 3)
    tree = FAST_TREE_BYTES if num_triangles >= MANY_TRIANGLES else TREE_BYTES
    rays = (tree + _TREE_INPUTS + 4 * TRIANGLE_WORDS) * num_triangles + 12 * num_vertices
    device = sum(DEVICE_BUFFERS["vertices"].values()) * num_vertices
    device += sum(DEVICE_BUFFERS["triangles"].values()) * num_triangles + mips
    return {"embree": scene + rays + mips, "opengl": scene + device, "gpu": device}
