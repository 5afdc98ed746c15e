"""Scenes of the Warp renderer come and go with those of its library."""

import weakref

import numpy as np
import pytest
from quads import scene_of, wall
from rays import AHEAD

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary

pytest.importorskip("warp")


def test_a_scene_that_has_left_is_released_although_another_target_showed_it():
    from gym_batchnav.render.warp.renderer import WarpRenderer

    library = SceneLibrary.from_scenes([scene_of(wall(2))])
    renderer = WarpRenderer(library)
    camera = Camera(8, 8, normalize_depth=False)
    depth, colors = (renderer.target(camera, sensors) for sensors in (("depth",), ("rgb",)))
    slot = np.zeros(1, int)
    for target in (depth, colors):
        target.render(slot, AHEAD)
    shapes = list(map(weakref.ref, renderer._shapes.values()))
    assert len(shapes) == 1  # shared by both targets
    library.put(0, scene_of(wall(3)))
    np.testing.assert_allclose(depth.render(slot, AHEAD)["depth"], 3, rtol=1e-5)
    assert shapes[0]() is None
    renderer.close()
