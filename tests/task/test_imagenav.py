"""ImageNav and InstanceImageNav: the goal picture is what an agent at the goal would see."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from furnished import CATEGORIES, furnished

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.ids import make_batch
from gym_batchnav.geometry import Camera, CameraJitter
from gym_batchnav.lenses import Fisheye
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.state import agent_state, episode_state
from gym_batchnav.task.api import TaskState
from gym_batchnav.task.imagenav import ImageGoal, ImageNav, InstanceImageGoal, InstanceImageNav

CAMERA = Camera(width=32, height=24, eye_height=1.0)
NORMAL = Camera(width=33, height=33, hfov_deg=40.0)  # odd, so that there is a pixel in the middle


@pytest.fixture(scope="module")
def library():
    return SceneLibrary.from_scenes([furnished()])


@pytest.fixture
def make(library, opened):
    def make(task, num_envs=6, **keywords):
        defaults = {"library": library, "episodes": 30, "renderer": "embree"}
        return opened(BatchNavEnv(num_envs, **{**defaults, "task": task, "sensors": ("rgb",), **keywords}))

    return make


def test_an_agent_at_the_goal_sees_the_goal_picture(make):
    camera = Camera(width=32, height=24, pitch_deg=-20, yaw_deg=15, roll_deg=5, offset=(0.1, 0.2))
    env = make(ImageNav(camera), camera=camera)
    observation, _ = env.reset(seed=0)
    heading = (env.task_state.uniform("imagegoal", 1)[:, 0] * 2 - 1) * np.pi
    there = env.set_pose(env.episodes.goal, heading)
    assert observation["imagegoal"].shape == (6, 24, 32, 3) and observation["imagegoal"].std() > 5
    np.testing.assert_array_equal(there["rgb"], observation["imagegoal"])


def test_pictures_of_goals_are_taken_without_jitter(make):
    """The goal of an episode looks the same however the agent's camera is placed in it."""
    jitter = CameraJitter(eye_height=(0.2, 0.4), pitch_deg=(20, 40), yaw_deg=(90, 180))
    swaying = replace(CAMERA, jitter=jitter)
    expected = make(ImageNav(CAMERA), camera=CAMERA).reset(seed=0)[0]["imagegoal"]
    env = make(ImageNav(swaying), camera=swaying)
    np.testing.assert_array_equal(env.reset(seed=0)[0]["imagegoal"], expected)
    heading = (env.task_state.uniform("imagegoal", 1)[:, 0] * 2 - 1) * np.pi
    there = env.set_pose(env.episodes.goal, heading)["rgb"]
    assert (there != expected).any(axis=(1, 2, 3)).all()  # the agent's own camera has its jitter
    options = {"library": env.library, "episodes": 30}
    by_id = make_batch("ImageNav", 6, camera=swaying, **options, renderer="embree")
    np.testing.assert_array_equal(by_id.reset(seed=0)[0]["imagegoal"], expected)
    by_id.close()
    jittered = replace(NORMAL, jitter=jitter)
    first, second = (make(InstanceImageNav(one, CATEGORIES)).reset(seed=0)[0] for one in (NORMAL, jittered))
    np.testing.assert_array_equal(second["instance_imagegoal"], first["instance_imagegoal"])


def test_the_picture_stays_until_the_next_episode(make):
    env = make(ImageNav(CAMERA), autoreset_mode="same_step", max_episode_steps=7)
    before = env.reset(seed=0)[0]["imagegoal"]
    for step in range(1, 15):
        observation, *_, info = env.step(np.full(6, 1 + step % 2))
        if step % 7 == 0:
            np.testing.assert_array_equal(info["final_obs"]["imagegoal"], before)
            assert (observation["imagegoal"] != before).any(axis=(1, 2, 3)).all()
            before = observation["imagegoal"]
        np.testing.assert_array_equal(observation["imagegoal"], before)


def test_stop_within_a_metre_is_success(make):
    env = make(ImageNav(CAMERA))
    env.reset(seed=0)
    mesh = env.simulator.navmesh(0)
    near = env.episodes.goal + np.array([[0.7, 0, 0], [-0.7, 0, 0], [0, 0, 0.7], [0, 0, -0.7], [0, 0, 0], [0.3, 0, 0]])
    env.set_pose(mesh.snap(near.astype(np.float32)), np.zeros(6))
    expected = env.episodes.distance < 1.0
    assert expected.any()
    *_, info = env.step(np.zeros(6, int))
    np.testing.assert_array_equal(info["success"], expected)


def test_the_instance_is_in_the_middle_of_its_picture(make):
    env = make(InstanceImageNav(NORMAL, CATEGORIES), num_envs=12)
    observation, _ = env.reset(seed=0)
    pictures = observation["instance_imagegoal"]
    assert pictures.shape == (12, 33, 33, 3)
    offset = env.episodes.target - env.episodes.viewpoint
    assert (np.hypot(offset[:, 0], offset[:, 2]) < 2.0).all() and (env.episodes.goal != env.episodes.viewpoint).any()
    scene = furnished()
    for index in range(12):
        # The colours of objects differ, and shading only scales them.
        ids = [number for number, one in enumerate(scene.objects) if one.name.startswith(("crate", "table"))]
        colors = scene.materials.base_color[ids, :3]
        shown = (pictures[index, 16, 16] / 255.0) ** 2.2
        alike = colors @ shown / np.linalg.norm(colors, axis=1) / np.linalg.norm(shown)
        assert alike.max() > 0.999, f"environment {index} shows {shown}"


def test_an_instance_is_the_only_goal(make):
    env = make(InstanceImageNav(NORMAL, CATEGORIES))
    env.reset(seed=0)
    episodes = env.simulator.episode_set(0)
    assert len(episodes.first_goal) == 4
    for first, end in itertools.pairwise(episodes.first_goal):
        assert len(np.unique(episodes.targets[first:end], axis=0)) == 1


def test_without_a_renderer_no_picture_is_drawn():
    state = TaskState(agent_state(1), episode_state(1), {}, None, 500, 1.0)
    with pytest.raises(RuntimeError, match="made without an environment's renderer: pass pictures="):
        ImageGoal().begin(state, np.arange(1))


@pytest.mark.parametrize(
    ("task", "second"), [(ImageNav, InstanceImageGoal), (lambda one: InstanceImageNav(one, CATEGORIES), ImageGoal)]
)
def test_the_lens_of_the_goal_camera_chooses_the_renderer(make, task, second):
    pinhole = task(CAMERA)
    fisheye = task(Camera(24, 24, lens=Fisheye()))
    assert make(pinhole, renderer="auto").config.renderer_name == "auto"
    env = make(fisheye, renderer="auto")
    assert env.config.renderer_name == "embree"
    observation, _ = env.reset(seed=0)
    (name,) = (name for name in observation if "imagegoal" in name)
    assert observation[name].any() and not observation[name][:, 0, 0].any()  # the corner has no ray
    with pytest.raises(ValueError, match=r"camera of the task's pictures: .*lens=Fisheye.*pass renderer='embree'"):
        make(fisheye, renderer="opengl")
    several = make(pinhole, sensors=("rgb", second(Camera(8, 8, lens=Fisheye()))), renderer="auto")
    assert several.config.renderer_name == "embree" and len(several.components.picture_cameras) == 2
