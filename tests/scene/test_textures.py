"""Sizes of textures: scaled down to a size, or to a budget for all of a scene."""

import numpy as np
import pytest
from glb import SQUARE_UVS, Glb, pictured, square

from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.scene import textures
from gym_batchnav.scene.load import load_scene


def pictures(tmp_path, *sides):
    """A file of squares, each with a texture of noise of these sides."""
    rng = np.random.default_rng(0)
    glb = Glb()
    noise = [rng.integers(0, 256, (height, width, 3), np.uint8) for height, width in sides]
    glb.mesh(*(glb.primitive(uvs=SQUARE_UVS, material=glb.picture(picture)) for picture in noise))
    glb.load(tmp_path)
    (path,) = tmp_path.glob("*.glb")
    return path


@pytest.mark.parametrize("budget", [10**9, 600_000, 100_000, 1])
def test_auto_is_the_largest_size_with_which_all_textures_fit(tmp_path, monkeypatch, budget):
    sides = [(256, 256), (128, 256), (64, 64), (256, 256), (300, 100)]
    path = pictures(tmp_path, *sides)
    monkeypatch.setattr(textures, "AUTO_BYTES", budget)
    scene = load_scene(path)

    def cost(size):
        shrink = [min(1, size / max(side)) for side in sides]
        return sum(4 * round(h * s) * round(w * s) for (h, w), s in zip(sides, shrink, strict=True))

    fitting = [size for size in (2048, 1024, 512, 256, 128, 64) if cost(size) <= budget]
    size = fitting[0] if fitting else textures.SMALLEST_SIDE
    assert scene.metadata["texture_size"] == size
    assert [max(texture.shape) for texture in scene.textures] == [min(size, max(side)) for side in sides]


def test_textures_are_averages_of_their_pixels(tmp_path, monkeypatch):
    path = pictures(tmp_path, (64, 32), (64, 64))
    (whole, _), (half, _) = (load_scene(path, texture_size=size).textures for size in (64, 32))
    means = whole.reshape(32, 2, 16, 2, 4).astype(float).mean(axis=(1, 3))
    assert half.shape == (32, 16, 4)
    assert np.abs(half - means).max() <= 1
    monkeypatch.setattr(textures, "AUTO_BYTES", 1)
    monkeypatch.setattr(textures, "SMALLEST_SIDE", 32)
    stepwise = load_scene(path)  # halved while the other one arrives
    assert stepwise.metadata["texture_size"] == 32
    assert np.abs(stepwise.textures[0].astype(int) - half).max() <= 1


@pytest.mark.parametrize("alpha", [0, 100])
def test_alpha_has_no_effect_on_the_averages_of_colours(tmp_path, monkeypatch, alpha):
    picture = np.full((64, 64, 4), (200, 100, 50, alpha), np.uint8)
    picture[::2] = (100, 200, 150, 255)
    glb = pictured(picture)
    mean = (150, 150, 100, (255 + alpha) / 2)
    (small,) = glb.load(tmp_path, texture_size=16).textures
    assert np.abs(small - mean).max() <= 1
    monkeypatch.setattr(textures, "AUTO_BYTES", 1)
    monkeypatch.setattr(textures, "SMALLEST_SIDE", 16)
    (halved,) = glb.load(tmp_path).textures
    assert halved.shape == (16, 16, 4)
    assert np.abs(halved - mean).max() <= 1


def test_a_scene_without_textures_has_no_size_of_them(tmp_path):
    assert "texture_size" not in square().load(tmp_path).metadata


@pytest.mark.parametrize("size", [0, -1, 2.0, True, "large", 2**20, None])
def test_other_sizes_are_errors(tmp_path, size):
    path = pictures(tmp_path, (8, 8))
    with pytest.raises(ValueError, match="texture_size="):
        load_scene(path, texture_size=size)
    with pytest.raises(ValueError, match="texture_size="):
        scene_sources(path, options={"texture_size": size})


def test_the_size_is_part_of_the_key(tmp_path):
    path = pictures(tmp_path, (64, 64))
    disk = DiskCache(tmp_path / "cache")
    sides = []
    for _ in range(2):  # made, then from the cache
        for options in (None, {"texture_size": "auto"}, {"texture_size": 16}, {"texture_size": 32}):
            (source,) = scene_sources(path, disk, options)
            sides.append(max(source.load().textures[0].shape))
    assert sides == [64, 64, 16, 32] * 2
    assert len(list((tmp_path / "cache").glob("*.entry"))) == 3
