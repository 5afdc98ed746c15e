"""Cameras whose place is drawn for each episode: ranges, independence of N, what is rendered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gym_batchnav import BatchNavEnv, Camera, CameraJitter
from gym_batchnav.env.cameras import drawn_places
from gym_batchnav.geometry import camera_to_world, camera_views

JITTER = CameraJitter(eye_height=(0.5, 1.5), pitch_deg=(-15, 5), yaw_deg=(-3, 3))
CAMERA = Camera(width=8, height=8, jitter=JITTER)
SETTINGS = {"scenes": "apartment_0", "renderer": "embree", "autoreset_mode": "same_step", "max_episode_steps": 3}


def test_places_cover_their_ranges_and_other_values_stay_those_of_the_camera():
    keys = np.arange(4000, dtype=np.uint64) * 7919
    places = drawn_places(CAMERA, keys)
    assert places is not None
    for values, (low, high) in ((places.eye_height, (0.5, 1.5)), (np.degrees(places.pitch), (-15, 5))):
        assert low <= values.min() < low + 0.01 * (high - low) and high - 0.01 * (high - low) < values.max() <= high
    only = drawn_places(replace(CAMERA, eye_height=1.1, jitter=CameraJitter(pitch_deg=(0, 9))), keys)
    assert only is not None and (only.eye_height == 1.1).all() and (only.yaw == 0).all()
    assert abs(np.corrcoef(places.eye_height, places.pitch)[0, 1]) < 0.05


def test_views_are_those_of_a_camera_with_the_drawn_values():
    keys = np.array([3, 4], np.uint64)
    places = drawn_places(CAMERA, keys)
    assert places is not None
    position = np.array([[1, 0, 2], [3, 0.5, -1]], np.float32)
    heading = np.array([0.3, -2.0], np.float32)
    pitch = np.array([0.1, 0.0], np.float32)
    views = camera_views(CAMERA, position, heading, pitch, places)
    for k in range(2):
        pitch_deg, yaw_deg = (float(np.degrees(angles[k])) for angles in (places.pitch, places.yaw))
        eye_height = float(places.eye_height[k])
        plain = replace(CAMERA, jitter=None, eye_height=eye_height, pitch_deg=pitch_deg, yaw_deg=yaw_deg)
        one = slice(k, k + 1)
        np.testing.assert_allclose(views[one], camera_views(plain, position[one], heading[one], pitch[one]), atol=1e-5)


@pytest.mark.parametrize("name", ["eye_height", "pitch_deg", "yaw_deg"])
def test_wrong_ranges_are_refused(name):
    for wrong in ((2, 1), (1,), 1.0, (0, float("nan")), ("a", "b")):
        with pytest.raises(ValueError, match=name):
            CameraJitter(**{name: wrong})
    with pytest.raises(ValueError, match="jitter"):
        Camera(jitter=(1, 2))  # type: ignore[arg-type]


def test_places_depend_on_the_seed_differ_between_episodes_and_are_kept_in_states():
    batch = BatchNavEnv(3, camera=CAMERA, **SETTINGS)
    alone = BatchNavEnv(1, camera=CAMERA, **SETTINGS)
    seen, _ = batch.reset(seed=5)
    single, _ = alone.reset(seed=6)
    heights = set()
    for _ in range(8):
        np.testing.assert_array_equal(seen["depth"][1], single["depth"][0])
        eyes = camera_to_world(batch.cameras.views(batch.agents))[:, 1, 3]
        heights.add(round(float(eyes[1]), 3))
        seen, *_, infos = batch.step(np.full(3, 2))
        single, *_, info = alone.step(np.full(1, 2))
        if "final_obs" in info:
            np.testing.assert_array_equal(infos["final_obs"]["depth"][1], info["final_obs"]["depth"][0])
    assert len(heights) >= 2 and max(heights) - min(heights) > 0.02
    state = batch.get_state()  # holds the cameras of its episodes
    before = batch.set_state(state)["depth"]
    for _ in range(5):
        batch.step(np.full(3, 1))
    np.testing.assert_array_equal(batch.set_state(state)["depth"], before)
    batch.close()
    alone.close()
