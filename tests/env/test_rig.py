"""Several cameras per agent: keys, groups, and images equal to those of one camera each."""

from dataclasses import replace

import numpy as np
import pytest
from walks import assert_equal, walk

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.cameras import CameraRig
from gym_batchnav.env.config import EnvConfig, bytes_per_environment
from gym_batchnav.env.ids import make_batch
from gym_batchnav.env.single import SingleEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.lenses import Equirectangular, Fisheye

N = 5
SENSORS = ("rgb", "depth", "semantic")
FRONT = Camera(20, 16)
LEFT = replace(FRONT, yaw_deg=90, offset=(-0.1, 0.05))
BACK = replace(FRONT, yaw_deg=180, pitch_deg=-20, eye_height=0.6)
WIDE = Camera(24, 10, hfov_deg=120, normalize_depth=False, max_depth=5)
RIG = {"front": FRONT, "left": LEFT, "wide": WIDE, "back": BACK}


@pytest.fixture
def make(library, opened):
    def make(num_envs=N, kind=BatchNavEnv, **kwargs):
        keywords = {"library": library, "episodes": 20, "renderer": "embree"}
        return opened(kind(*([num_envs] if kind is not SingleEnv else []), **{**keywords, **kwargs}))

    return make


def only(observation, camera):
    """The images of one camera under the names that they have without others."""
    return {key.partition("/")[2]: image for key, image in observation.items() if key.startswith(f"{camera}/")}


def copies(observation):
    return {key: values.copy() for key, values in observation.items()}


def life(env):
    """Copies of the observations of a reset and ten steps, and of every ``final_obs``."""
    seen = [copies(env.reset(seed=3)[0])]
    for step in range(10):
        observation, _, _, _, info = walk(env, 1, seed=step)[0]
        seen += [copies(observation), copies(info.get("final_obs", {}))]
    return seen


@pytest.mark.parametrize(("mode", "buffers"), [("next_step", None), ("same_step", None), ("same_step", 2)])
def test_each_camera_of_several_sees_what_it_sees_alone_to_the_bit(make, mode, buffers):
    keywords = {"sensors": SENSORS, "autoreset_mode": mode, "max_episode_steps": 7, "buffers": buffers}
    together = life(make(camera=RIG, **keywords))
    assert sum(map(bool, together)) > 11 if mode == "same_step" else sum(map(bool, together)) == 11
    for name, camera in RIG.items():
        for seen, alone in zip(together, life(make(camera=camera, **keywords)), strict=True):
            assert_equal(only(seen, name), {key: image for key, image in alone.items() if key in SENSORS})


@pytest.mark.opengl
def test_opengl_draws_several_cameras_like_embree(make):
    keywords = {"camera": RIG, "sensors": ("depth", "semantic")}
    opengl, embree = (make(**keywords, renderer=name).reset(seed=3)[0] for name in ("opengl", "embree"))
    for key in opengl:
        assert np.isclose(opengl[key], embree[key], rtol=1e-2, atol=1e-3).mean() > 0.99, key


def test_sensors_of_one_camera_or_of_each():
    rig = CameraRig(RIG, ("depth", "front/rgb", "wide/rgb"))
    assert set(rig.keys) == {"front/depth", "left/depth", "wide/depth", "back/depth", "front/rgb", "wide/rgb"}
    assert {frozenset(group.names) for group in rig.groups} == {
        frozenset({"front"}), frozenset({"left", "back"}), frozenset({"wide"}),
    }  # fmt: skip
    assert CameraRig(RIG, ()).groups == () and CameraRig(RIG, ("left/depth",)).keys == ("left/depth",)
    assert CameraRig(FRONT).keys == ("depth",) and CameraRig({"front": FRONT}).keys == ("front/depth",)


def test_observations_lie_in_their_spaces_and_pictures_come_from_the_first_or_a_named_camera(make):
    env = make(camera=RIG, sensors=SENSORS)
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert observation["wide/depth"].shape == (N, 10, 24, 1) and observation["wide/depth"].max() > 1
    left = make(camera=LEFT)
    left.reset(seed=0)
    np.testing.assert_array_equal(env.pictures(size=32), env.pictures(size=32, camera="front"))
    np.testing.assert_array_equal(env.pictures(size=32, camera="left"), left.pictures(size=32))
    with pytest.raises(ValueError, match="'right'"):
        env.pictures(camera="right")


def test_memory_counts_every_camera():
    one, two = (bytes_per_environment(EnvConfig(camera=camera)) for camera in (FRONT, {"front": FRONT, "left": LEFT}))
    none = bytes_per_environment(EnvConfig(camera=FRONT, sensors=()))
    assert two - one == one - none + 3 * 64  # the matrices of one view are counted for blind agents, too


def test_one_array_holds_the_images_of_one_camera(library):
    for name in ("PointNavImage", "PointNavScan"):
        with pytest.raises(ValueError, match=r"'front', 'left'.*pass a Camera"):
            make_batch(name, 2, camera={"front": FRONT, "left": LEFT}, library=library, renderer="embree")


def test_lenses_and_lidars_are_cameras_like_others(make):
    cameras = {
        "front": FRONT, "around": Camera(32, 16, lens=Equirectangular()), "back": replace(FRONT, yaw_deg=180),
        "lidar": Camera.lidar(36, elevations_deg=(0.0, 10.0), max_range=4),
    }  # fmt: skip
    sensors = ("depth", "front/rgb", "around/rgb", "around/normals", "front/points", "around/semantic")
    env = make(camera=cameras, sensors=sensors, renderer="auto")
    observation, _ = env.reset(seed=0)
    assert env.renderer.name == "embree" and env.observation_space.contains(observation)
    assert observation["lidar/depth"].shape == (N, 2, 36, 1) and 1 < observation["lidar/depth"].max() <= 4
    for name, camera in cameras.items():
        alone = make(camera=camera, sensors=tuple(key.partition("/")[2] for key in observation if key.startswith(name)))
        assert_equal(only(observation, name), only_images(alone.reset(seed=0)[0]))
    assert env.pictures(camera="lidar", size=24).shape == (N, 24, 24, 3)
    assert "Beams" in env._repr_mimebundle_()["text/html"]
    lidar = Camera.lidar(40, normalize_depth=True)
    scan = make_batch("PointNavScan", 2, camera=lidar, library=env.library, episodes=20)
    assert scan.reset(seed=0)[0].shape == (2, 43)
    scan.close()


def only_images(observation):
    """An observation without the goal."""
    return {key: image for key, image in observation.items() if image.ndim == 4}


def test_what_opengl_cannot_draw_is_refused_when_the_batch_is_made():
    for camera, sensors in ((Camera(lens=Fisheye()), ("depth",)), ({"a": FRONT}, ("a/normals",))):
        with pytest.raises(ValueError, match="pass renderer='embree'"):
            EnvConfig(camera=camera, sensors=sensors, renderer="opengl")


@pytest.mark.parametrize("camera", [Camera(), Camera(lens=Fisheye())])
def test_images_on_the_gpu_are_drawn_by_warp(monkeypatch, camera):
    monkeypatch.setattr("gym_batchnav.env.config.check_device", lambda device, renderer: None)
    assert EnvConfig(camera=camera, obs_device="cuda").renderer_name == "warp"


@pytest.mark.parametrize(
    ("camera", "sensors", "message"),
    [
        ({}, ("depth",), "one or more Cameras"),
        ({"front": 64}, ("depth",), "'front': 64"),
        ({"": FRONT}, ("depth",), "without '/'"),
        ({"a.b": FRONT}, ("depth",), "without '/'"),
        ({1: FRONT}, ("depth",), "without '/'"),
        (RIG, ("right/depth",), "'right'; available: 'front', 'left', 'wide', 'back'"),
        (RIG, ("front/heat",), "'heat' is not one of"),
        (RIG, ("front",), "'front' is not one of .*; one image of this camera is 'front/depth'"),
        (RIG, ("depth", "left/depth"), "'left/depth' is listed twice"),
        (FRONT, ("front/depth",), "pass camera={'front'"),
        (FRONT, ("/depth",), "unknown camera ''"),
        (FRONT, "depth", "pass a tuple"),
    ],
)
def test_what_no_agent_can_carry_is_refused_by_name(camera, sensors, message):
    with pytest.raises(ValueError, match=message.replace("{", r"\{")):
        EnvConfig(camera=camera, sensors=sensors)


def test_cameras_that_differ_only_in_their_place_are_drawn_in_one_call(make, monkeypatch):
    env = make(camera=RIG)
    drawn = []
    make_target = env.renderer.target

    def target(camera, sensors, num_views, **kwargs):
        drawn.append((camera.width, num_views))
        return make_target(camera, sensors, num_views=num_views, **kwargs)

    monkeypatch.setattr(env.renderer, "target", target)
    env.reset(seed=0)
    assert sorted(drawn) == [(20, 3 * N), (24, N)]
