"""benchmarks/agreement.py excuses what rounding decides, and finds every fault that is put into pictures."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from quads import Quad, checkerboard, scene_of

from gym_batchnav.geometry import Camera, look_at
from gym_batchnav.render.embree.renderer import EmbreeRenderer
from gym_batchnav.render.opengl import OpenGLRenderer

CAMERA = Camera(width=64, height=64)
GREEN = (0.1, 0.8, 0.1, 1)
RED = (0.9, 0.1, 0.1, 1)


@pytest.fixture(scope="module")
def agreement():
    """The benchmark as a module."""
    folder = str(Path(__file__).parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import agreement

        return agreement
    finally:
        sys.path.remove(folder)


def room():
    """Slanted panels with textures before a wall, and a rug that lies exactly in the floor, with corners of its own."""
    noise = np.random.default_rng(0).integers(0, 256, (256, 256, 4)).astype(np.uint8)
    noise[..., 3] = 255
    return scene_of(
        Quad((-2, -1, 2), (4, 0, 0), (0, 0, -4), base_color=RED),
        Quad((-1.1, -1, 0.7), (1.9, 0, 0.3), (-0.3, 0, -1.7), base_color=GREEN),
        Quad((-2, -1, -2), (4, 0, 0), (0, 2, 0), noise, (3, 2)),
        Quad((-1.5, -0.9, -1), (1.3, 0.1, 0.4), (0.1, 1.5, -0.2), checkerboard(4)),
        Quad((0.2, -0.9, -1), (1.2, 0.2, -0.4), (-0.1, 1.4, 0.3), checkerboard(8)),
    )


def views():
    eyes = np.array([[0.3, 0.7, 3.0], [-1.7, 1.3, 2.5], [1.6, 0.9, 2.4], [0.1, 2.6, 1.2]])
    return look_at(eyes, np.array([[0.0, -0.5, 0.0]] * 4))


def turned(angle):
    """The views, turned left by an angle in radians, and so off by some pixels."""
    turn = np.eye(4)
    turn[[0, 0, 2, 2], [0, 2, 0, 2]] = np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)
    return (turn @ views()).astype(np.float32)


def blurred(scene):
    """The scene with textures averaged over an eighth of their side, as on a mip level that is too high."""
    coarse = []
    for texture in scene.textures:
        mean = texture.astype(float)
        for axis in (0, 1):
            mean = np.mean([np.roll(mean, k, axis) for k in range(len(texture) // 8)], axis=0)
        coarse.append(mean.astype(np.uint8))
    return replace(scene, textures=tuple(coarse))


def swapped(scene):
    """The scene with two textures exchanged."""
    first, second, *rest = scene.textures
    return replace(scene, textures=(second, first, *rest))


def without_triangle(scene):
    """The scene without the last of its triangles."""
    return replace(
        scene,
        triangles=scene.triangles[:-1],
        triangle_material=scene.triangle_material[:-1],
        triangle_object=scene.triangle_object[:-1],
    )


def dimmer(scene):
    """The scene with all colours a tenth darker."""
    return replace(scene, materials=replace(scene.materials, base_color=scene.materials.base_color * np.float32(0.9)))


FAULTS = {
    "a view off by half a pixel": (lambda scene: scene, turned(0.5 * 2 / 64)),
    "a wrong mip level": (blurred, views()),
    "swapped textures": (swapped, views()),
    "a missing triangle": (without_triangle, views()),
    "wrong brightness": (dimmer, views()),
}


@pytest.mark.opengl
def test_the_renderers_agree_where_rounding_does_not_decide(agreement):
    scene = room()
    pictures = [agreement.draw(kind, scene, views(), CAMERA) for kind in (OpenGLRenderer, EmbreeRenderer)]
    shares = agreement.find_shares(scene, views(), CAMERA, pictures)
    assert agreement.Agreement("", **shares).agrees
    assert shares["rgb"] <= 1e-4 and shares["seen"] > 0.3
    differ = (pictures[0]["semantic"] != pictures[1]["semantic"]).mean()
    assert shares["ambiguous"] == pytest.approx(differ, abs=2e-4) and differ > 1e-3  # the rug in the floor


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(agreement, fault):
    change, seen_from = FAULTS[fault]
    scene = room()
    truth = agreement.draw(EmbreeRenderer, scene, views(), CAMERA)
    wrong = agreement.draw(EmbreeRenderer, change(scene), seen_from, CAMERA)
    found = agreement.Agreement("", **agreement.find_shares(scene, views(), CAMERA, [truth, wrong]))
    assert not found.agrees
    over = max(getattr(found, sensor) / share for sensor, share in agreement.MAX_SHARES.items())
    assert over > 3 and found.ambiguous < 0.01


def test_an_object_that_is_shown_at_a_wrong_place_is_no_matter_of_rounding(agreement):
    scene = room()
    truth = agreement.draw(EmbreeRenderer, scene, views(), CAMERA)
    wrong = {sensor: picture.copy() for sensor, picture in truth.items()}
    rug = truth["semantic"] == 2
    wrong["semantic"][rug] = 3  # the wall, which no ray hits there
    shares = agreement.find_shares(scene, views(), CAMERA, [truth, wrong])
    assert shares["semantic"] == pytest.approx(rug.mean()) and shares["ambiguous"] == 0
