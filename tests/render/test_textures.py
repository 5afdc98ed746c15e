"""Texture pools: layout, averages in linear light, and the whole mip chain."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quads import scene_of, wall
from rays import to_linear, to_srgb

from gym_batchnav.geometry import Camera
from gym_batchnav.render.textures import SRGB_DECODE, SRGB_ENCODE, build_texture_pool, texture_size
from gym_batchnav.scene.scene import Scene


def scene_with(*textures: np.ndarray) -> Scene:
    return replace(scene_of(wall(2)), textures=textures)


def area_average(image: np.ndarray, size: int) -> np.ndarray:
    """Resize [H, W, C] by area average, the slow way: every texel is cut into size x size equal parts."""
    fine = image.repeat(size, axis=0).repeat(size, axis=1)
    height, width = image.shape[:2]
    return fine.reshape(size, height, size, width, -1).mean(axis=(1, 3))


def test_tables_give_every_byte_back():
    steps = len(SRGB_ENCODE) - 1
    assert (SRGB_ENCODE[np.rint(SRGB_DECODE * steps).astype(int)] == np.arange(256)).all()


def test_levels_halve_down_to_one_texel_and_textures_of_the_right_size_stay_as_they_are():
    textures = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 4), dtype=np.uint8)
    pool = build_texture_pool(scene_with(*textures), 16)
    assert [level.shape for level in pool.levels] == [(3, s, s, 4) for s in (16, 8, 4, 2, 1)]
    assert (pool.levels[0] == textures).all()


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 4, 16]), st.integers(0, 2**32 - 1))
def test_resizing_is_the_area_average_in_linear_light(height, width, size, seed):
    texture = np.random.default_rng(seed).integers(0, 256, (height, width, 4), dtype=np.uint8)
    level = build_texture_pool(scene_with(texture), size).levels[0][0].astype(float)
    color = to_srgb(area_average(to_linear(texture[..., :3].astype(float)), size))
    alpha = area_average(texture[..., 3:].astype(float), size)
    assert np.abs(level[..., :3] - color).max() <= 0.75  # half a step of the byte, the rest of the table
    assert np.abs(level[..., 3:] - alpha).max() <= 0.51


def test_levels_average_light_and_not_bytes():
    checker = np.zeros((8, 8, 4), np.uint8)
    checker[::2, ::2] = checker[1::2, 1::2] = 255
    pool = build_texture_pool(scene_with(checker), 8)
    # Half of the light is byte 188; half of the bytes would be 128. Alpha is linear.
    for level in pool.levels[1:]:
        assert (level[..., :3] == 188).all() and (level[..., 3] == 128).all()


def test_a_constant_texture_is_constant_on_every_level():
    for value in (0, 1, 7, 100, 254, 255):
        pool = build_texture_pool(scene_with(np.full((13, 300, 4), value, np.uint8)), 64)
        assert (pool.flat == value).all()


def test_no_textures_make_an_empty_pool_and_bad_input_is_refused_by_name():
    pool = build_texture_pool(scene_with(), 256)
    assert len(pool) == 0 and pool.flat.size == 0 and pool.levels[0].shape == (0, 256, 256, 4)
    with pytest.raises(ValueError, match="power of two"):
        build_texture_pool(scene_with(), 100)
    with pytest.raises(ValueError, match=r"texture 0 of scene 'quads'.*\(4, 4, 3\)"):
        build_texture_pool(scene_with(np.zeros((4, 4, 3), np.uint8)), 16)


@pytest.mark.parametrize(("width", "height", "size"), [(64, 64, 256), (16, 64, 256), (65, 64, 512), (64, 480, 512)])
def test_texture_size_follows_the_camera(width, height, size):
    assert texture_size(Camera(width, height)) == size
