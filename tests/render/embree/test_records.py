"""The records that kernels read by address: every field is read back where the kernels look for it."""

import ctypes

import numba
import numpy as np
from quads import checkerboard, scene_of, wall
from rays import AHEAD, METRES, render

from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render import records
from gym_batchnav.render.embree import packet, trace
from gym_batchnav.render.embree.renderer import EmbreeRenderer
from gym_batchnav.render.embree.shade import LOG2_ERROR, find_levels, finish_colors
from gym_batchnav.render.textures import build_texture_pool, level_starts


class RayHit16(ctypes.Structure):
    """RTCRayHit16 as rtcore_ray.h of Embree 4 declares it, with one level of instances."""

    _fields_ = [
        *((name, ctypes.c_float * 16) for name in ("org_x", "org_y", "org_z", "tnear")),
        *((name, ctypes.c_float * 16) for name in ("dir_x", "dir_y", "dir_z", "time", "tfar")),
        *((name, ctypes.c_uint * 16) for name in ("mask", "id", "flags")),
        *((name, ctypes.c_float * 16) for name in ("Ng_x", "Ng_y", "Ng_z", "u", "v")),
        *((name, ctypes.c_uint * 16) for name in ("primID", "geomID", "instID", "instPrimID")),
    ]


def test_a_slot_has_the_addresses_of_its_scene():
    scene = scene_of(wall(2, texture=checkerboard(4), masked=True), wall(3))
    library = SceneLibrary.from_scenes([scene])
    renderer = EmbreeRenderer(library)
    slot = renderer.slot_table(library, cull=False, size=64, masked_only=False).table[0]
    built = records.build_surface(scene, 64)

    def memory(field, count, kind):
        return np.ctypeslib.as_array(ctypes.cast(int(slot[field]), ctypes.POINTER(kind)), (count,))

    assert slot["tree"] and slot["masked"] == 1
    assert (slot["num_triangles"], slot["num_materials"], slot["num_textures"]) == (4, 2, 1)
    assert (memory("objects", 4, ctypes.c_int32) == scene.triangle_object).all()
    assert (memory("triangles", built.triangles.nbytes, ctypes.c_uint8) == built.triangles.view(np.uint8)).all()
    assert (memory("materials", built.materials.nbytes, ctypes.c_uint8) == built.materials.view(np.uint8)).all()
    assert (memory("texels", built.pool.nbytes, ctypes.c_uint8) == built.pool.flat).all()
    assert slot["triangles"] % 64 == 0
    renderer.close()


def test_a_packet_begins_with_embrees_rays():
    for name, word in (
        ("org_x", packet.ORIGIN), ("tnear", packet.NEAR), ("dir_x", packet.DIRECTION), ("tfar", packet.FAR),
        ("mask", packet.MASK), ("Ng_x", packet.NORMAL), ("u", packet.U), ("v", packet.V),
        ("primID", packet.TRIANGLE), ("geomID", packet.HIT),
    ):  # fmt: skip
        assert getattr(RayHit16, name).offset == 4 * word, name
    assert ctypes.sizeof(RayHit16) == 4 * packet.ACTIVE


def test_mip_levels_are_as_exact_as_they_say():
    size = 512
    levels = 9
    array = packet.new_packets.py_func(1)[0]
    floats = array.view(np.float32)

    @numba.njit
    def find(array: np.ndarray, floats: np.ndarray, size: int) -> None:
        find_levels(array, floats, size)

    # Squares of footprints from a fifth of a texel to five textures, and what no texture has.
    squares = np.geomspace(0.2 / size, 5, 160_000).astype(np.float32).reshape(-1, 16) ** 2
    worst = 0.0
    for row in squares:
        floats[packet.FOOTPRINT : packet.FOOTPRINT + 16] = row
        find(array, floats, size)
        level = array[packet.LEVEL : packet.LEVEL + 16] + floats[packet.BLEND : packet.BLEND + 16].astype(np.float64)
        exact = np.clip(np.log2(size) + 0.5 * np.log2(row.astype(np.float64)), 0, levels)
        worst = max(worst, np.abs(level - exact).max())
    assert worst <= LOG2_ERROR / 2 + 2e-6  # and the rounding of a float32 near 9
    for absurd, expected in ((0.0, 0), (np.inf, levels), (np.nan, levels)):
        floats[packet.FOOTPRINT : packet.FOOTPRINT + 16] = absurd
        find(array, floats, size)
        assert (array[packet.LEVEL : packet.LEVEL + 16] == expected).all()


def test_levels_start_where_the_pool_has_them():
    scene = scene_of(*(wall(1.0 + k, texture=checkerboard(2 + k)) for k in range(3)))
    for size in (1, 4, 256):
        pool = build_texture_pool(scene, size)
        starts = [(level.ctypes.data - pool.flat.ctypes.data) // 4 for level in pool.levels]
        assert (len(pool) * level_starts(size)).tolist() == starts


def test_read_only_arrays_compile_no_second_kernel():
    render(scene_of(wall(2)), AHEAD, METRES)
    compiled = len(trace.draw.signatures)
    views = np.broadcast_to(AHEAD, (6, 4, 4))
    slots = np.zeros(12, np.int64)[::2]
    slots.flags.writeable = False
    assert np.allclose(render(scene_of(wall(2)), views, METRES, slots=slots)["depth"], 2)
    assert len(trace.draw.signatures) == compiled


def test_light_that_is_not_a_number_is_black():
    """It comes from triangles so small that their normals underflow, and would be a wild index of the sRGB table."""

    @numba.njit
    def finish(packet, floats):
        finish_colors(packet, floats, np.float32(4095))

    words = np.zeros(packet.SHOWN_RGB + 48, np.int32)
    words.view(np.float32)[packet.LIGHT : packet.LIGHT + 16] = np.nan
    finish(words, words.view(np.float32))
    assert (words[packet.SHOWN_RGB :] == 0).all()
