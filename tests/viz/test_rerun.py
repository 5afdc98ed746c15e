"""Recordings of a running batch for rerun's viewer, read back by rerun."""

# ruff: noqa: E402
from collections import defaultdict
from functools import partial

import numpy as np
import pytest
from libraries import require
from rooms import box, scene_of

require("rerun")

from recordings import Recorded

from gym_batchnav import viz
from gym_batchnav.geometry import Camera, camera_to_world
from gym_batchnav.worlds.views import FIRST_BODY_ID

CAMERA = Camera(24, 16, normalize_depth=False, depth_miss="zero")
IMAGES = {
    "rgb": ("Image", np.uint8), "depth": ("DepthImage", np.float32), "semantic": ("SegmentationImage", np.uint16),
}  # fmt: skip


@pytest.fixture
def make(make):
    return partial(make, sensors=("rgb", "depth", "semantic"), camera=CAMERA)


def run(env, steps, indices):
    """Step at random; return what each frame of each episode of some environments was, from the observations."""
    rng = np.random.default_rng(0)
    episodes = []
    open_ones = {}
    observation = env.reset(seed=4)[0]

    def note(index, **more):
        more |= {sensor: observation[sensor][index].copy() for sensor in IMAGES}
        more["pose"] = camera_to_world(env.cameras.views(env.agents, np.array([index])))[0]
        more["goal"] = env.episodes.goal[index].copy()
        for name, value in more.items():
            open_ones[index][name].append(value)

    def begin(index):
        open_ones[index] = defaultdict(list)
        episodes.append(open_ones[index])
        note(index)

    for index in indices:
        begin(index)
    ended = np.zeros(env.num_envs, bool)
    for _ in range(steps):
        actions = rng.choice(4, env.num_envs, p=[0.01, 0.59, 0.2, 0.2])
        observation, reward, terminated, truncated, _ = env.step(actions)
        for index in indices:
            if ended[index]:
                begin(index)
            else:
                distance = float(env.episodes.distance[index])
                note(index, reward=float(reward[index]), action=int(actions[index]), distance=distance)
        ended = terminated | truncated
    return episodes


def test_what_the_batch_gave_is_read_back(tmp_path, make):
    """Poses, goals, pictures, rewards, actions and measures of every frame; more than 64 of them in an episode."""
    env = make(max_episode_steps=70)
    path = tmp_path / "run.rrd"
    with viz.record(path, env, indices=(2, 0), sensors=("rgb", "depth", "semantic"), size=24) as recorder:
        episodes = run(env, 100, (0, 2))
        assert not path.exists()
    assert recorder.num_episodes == len(episodes) > 3
    assert list(tmp_path.iterdir()) == [path]
    found = Recorded(path)
    assert (found.num_recordings, found.num_blueprints, found.name) == (1, 1, "run")
    assert max(len(episode["reward"]) for episode in episodes) > 64  # written in two pieces
    for number, episode in enumerate(episodes):
        root = f"episodes/{number:04d}"
        count = len(episode["pose"])
        poses = np.stack(episode["pose"])
        key = (f"/{root}/world/camera", "Transform3D:translation")
        np.testing.assert_array_equal(found.steps[key], np.arange(count))
        np.testing.assert_array_equal(found.vectors(key[0][1:], key[1]), poses[:, :3, 3])
        columns = found.vectors(f"{root}/world/camera", "Transform3D:mat3x3").reshape(-1, 3, 3)
        np.testing.assert_array_equal(columns.swapaxes(1, 2), poses[:, :3, :3])
        np.testing.assert_array_equal(found.vectors(f"{root}/world/goal", "Points3D:positions"), episode["goal"])
        for sensor, (archetype, dtype) in IMAGES.items():
            images = found.images(f"{root}/world/camera/{sensor}", archetype, dtype)
            np.testing.assert_array_equal(images, np.stack(episode[sensor]))
        if len(episode["reward"]):
            steps, rewards = found.curve(f"{root}/reward/step")
            np.testing.assert_array_equal(steps, np.arange(1, count))
            np.testing.assert_array_equal(rewards, episode["reward"])
            np.testing.assert_allclose(found.curve(f"{root}/reward/return")[1], np.cumsum(episode["reward"]))
            steps, actions = found.curve(f"{root}/action")
            np.testing.assert_array_equal(steps, np.arange(count - 1))
            np.testing.assert_array_equal(actions, episode["action"])
            np.testing.assert_allclose(found.curve(f"{root}/measures/distance_to_goal")[1], episode["distance"])


def test_other_agents_are_in_the_pictures(tmp_path, make):
    env = make(4, agents_per_world=4)
    rng = np.random.default_rng(0)
    with viz.record(tmp_path / "a.rrd", env, indices=range(4), sensors=("semantic",), size=24):
        seen = [env.reset(seed=4)[0]["semantic"]]
        seen += [env.step(rng.integers(1, 4, 4))[0]["semantic"] for _ in range(20)]
    assert (np.stack(seen) >= FIRST_BODY_ID).any()
    found = Recorded(tmp_path / "a.rrd")
    for index in range(4):
        path = f"episodes/{index:04d}/world/camera/semantic"
        images = found.images(path, "SegmentationImage", np.uint16)
        np.testing.assert_array_equal(images, np.stack(seen)[:, index] % 2**16)


def test_depth_is_0_where_nothing_is_hit_whatever_the_least_depth(tmp_path, make):
    plate = scene_of("plate", box((-4, -0.1, -4), (4, 0, 4)))
    env = make(1, sensors=(), scenes=plate, camera=Camera(24, 16, min_depth=0.5))
    with viz.record(tmp_path / "a.rrd", env, sensors=("depth",), size=24):
        env.reset(seed=1)
    depth = Recorded(tmp_path / "a.rrd").images("episodes/0000/world/camera/depth", "DepthImage", np.float32)
    assert (depth[0, :8] == 0).all() and (depth[0, -1] > 0.5).all()


def test_the_camera_sees_the_goal_where_it_is(tmp_path, make):
    """The pinhole and the transform together: depth, taken back into the world, lies on the walls of the room."""
    env = make(1)
    with viz.record(tmp_path / "a.rrd", env, size=24):
        env.reset(seed=1)
    found = Recorded(tmp_path / "a.rrd")
    root = "/episodes/0000/world/camera"
    matrix = np.array(found.fixed[root, "Pinhole:image_from_camera"][0]).reshape(3, 3).T
    np.testing.assert_allclose(matrix, CAMERA.intrinsics, rtol=1e-6)
    assert found.fixed[root, "Pinhole:camera_xyz"] == [[3, 1, 6]]  # right, up, back, as OpenGL has it
    depth = found.images(f"{root[1:]}/depth", "DepthImage", np.float32)[0, ..., 0].astype(np.float64)
    row, column = np.mgrid[: CAMERA.height, : CAMERA.width] + 0.5
    rays = np.stack([column, row, np.ones_like(row)], -1) @ np.linalg.inv(matrix).T
    points = (rays * depth[..., None] * [1, -1, -1]).reshape(-1, 3)
    turn = found.vectors(root[1:], "Transform3D:mat3x3")[0].reshape(3, 3).T
    world = points @ turn.T + found.vectors(root[1:], "Transform3D:translation")[0]
    low, high = env.library.scene(0).bounds
    on_a_wall = (np.abs(world - low) < 0.01) | (np.abs(world - high) < 0.01)
    assert on_a_wall.any(axis=1)[depth.ravel() > 0].all()


def test_the_scene_once_or_the_navmesh_per_episode(tmp_path, make):
    env = make(2)
    with viz.record(tmp_path / "scene.rrd", env, indices=(0, 1), sensors=()):
        env.reset(seed=1)
    found = Recorded(tmp_path / "scene.rrd")
    assert bytes(found.fixed["/scenes/0000/surface", "Asset3D:blob"][0])[:4] == b"glTF"
    assert not any("floor" in path or "rgb" in path for path in found.entities())
    assert "/scenes/0001" not in found.entities()
    with viz.record(tmp_path / "navmesh.rrd", env, indices=(0, 1), sensors=(), scene=False):
        env.reset(seed=1)
    found = Recorded(tmp_path / "navmesh.rrd")
    vertices = np.array(found.fixed["/episodes/0001/world/floor", "Mesh3D:vertex_positions"])
    assert np.isclose(vertices.min(axis=0), env.navmesh_of(0).bounds[0], atol=0.3).all()
    assert not any(path.startswith("/scenes") for path in found.entities())


@pytest.mark.parametrize("mode", ["same_step", "disabled"])
def test_every_autoreset_mode_ends_episodes(tmp_path, make, mode):
    env = make(1, autoreset_mode=mode, sensors=())
    with viz.record(tmp_path / "a.rrd", env, sensors=(), max_episodes=2) as recorder:
        env.reset(seed=1)
        for _ in range(3):
            env.step(np.array([1]))
            env.step(np.array([0]))
            if mode == "disabled":
                env.reset(options={"reset_mask": np.array([True])})
    assert recorder.num_episodes == 2
    found = Recorded(tmp_path / "a.rrd")
    for root in ("episodes/0000", "episodes/0001"):
        steps, success = found.curve(f"{root}/ends/success")
        assert steps.tolist() == [2] and success.tolist() == [0]
        assert "ended" in found.fixed[f"/{root}/about", "TextDocument:text"][0]
        assert len(found.fixed[f"/{root}/world/path", "LineStrips3D:strips"][0]) == 3


def test_agents_that_wait_for_others_of_their_world_end_with_it(tmp_path, make):
    env = make(3, agents_per_world=(2, 3), sensors=(), max_episode_steps=4)
    seed = next(seed for seed in range(99) if env.reset(seed=seed) and env.worlds.waiting().any())
    with viz.record(tmp_path / "a.rrd", env, indices=range(3), sensors=(), max_episodes=3) as recorder:
        env.reset(seed=seed)
        for _ in range(4):
            env.step(np.array([0, 2, 2]))
    assert recorder.num_episodes == 2  # the third agent does not take part
    found = Recorded(tmp_path / "a.rrd")
    for root, num_steps in (("episodes/0000", 1), ("episodes/0001", 4)):
        steps, success = found.curve(f"{root}/ends/success")
        assert steps.tolist() == [num_steps] and success.tolist() == [0]
        text = found.fixed[f"/{root}/about", "TextDocument:text"][0]
        assert f"| steps | {num_steps} |" in text and "| state | ended |" in text


def test_an_error_keeps_what_was_recorded_and_the_batch_goes_on(tmp_path, make):
    env = make(1, sensors=())
    recorder = viz.record(tmp_path / "a.rrd", env, sensors=())
    with pytest.raises(ZeroDivisionError), recorder:
        env.reset(seed=1)
        env.step(np.array([1]))
        raise ZeroDivisionError
    recorder.close()
    assert env.stepper.listeners == []
    env.step(np.array([1]))
    found = Recorded(tmp_path / "a.rrd")
    assert len(found.curve("episodes/0000/action")[1]) == 1
    assert "not ended" in found.fixed["/episodes/0000/about", "TextDocument:text"][0]


@pytest.mark.parametrize(
    ("path", "keywords", "error", "message"),
    [
        ("run.txt", {}, ValueError, r"ends in \.rrd"),
        ("run.rrd", {"indices": (3,)}, ValueError, "environments 0 to 0"),
        ("run.rrd", {"indices": ()}, ValueError, "at least one environment"),
        ("run.rrd", {"indices": (0.7,)}, ValueError, "pass integers"),
        ("run.rrd", {"sensors": ("normals",)}, ValueError, "any of rgb, depth, semantic"),
        ("run.rrd", {"size": 0}, ValueError, "size=0"),
        ("no/run.rrd", {}, OSError, "no"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, make, path, keywords, error, message):
    env = make(1, sensors=())
    with pytest.raises(error, match=message):
        viz.record(tmp_path / path, env, **keywords)
    assert env.stepper.listeners == [] and list(tmp_path.iterdir()) == []
