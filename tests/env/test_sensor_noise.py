"""Noise of sensors in a batch: which images get it, and that it depends on seed, episode, step and name alone."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from walks import assert_equal

from gym_batchnav import BatchNavEnv, Camera, GaussianNoise, RedwoodNoise, SaltAndPepperNoise
from gym_batchnav.env.single import SingleEnv
from gym_batchnav.episodes.draws import step_keys
from gym_batchnav.noise.api import SensorNoise

N = 6
CAMERA = Camera(32, 24)
RIG = {"front": CAMERA, "left": replace(CAMERA, yaw_deg=90)}
NOISE = {"rgb": GaussianNoise(0.1), "depth": RedwoodNoise()}
RENDERERS = ["embree", pytest.param("opengl", marks=pytest.mark.opengl)]


@pytest.fixture
def make(library, opened):
    def make(num_envs=N, kind=BatchNavEnv, **kwargs):
        keywords = {"library": library, "episodes": 20, "renderer": "embree"}
        keywords |= {"sensors": ("rgb", "depth", "semantic"), "camera": CAMERA, "sensor_noise": NOISE, **kwargs}
        return opened(kind(*([num_envs] if kind is not SingleEnv else []), **keywords))

    return make


def copies(observation):
    return {key: values.copy() for key, values in observation.items()}


def life(env, steps=6, seed=3):
    seen = [copies(env.reset(seed=seed)[0])]
    rng = np.random.default_rng(seed)
    actions = rng.choice(4, (steps, 16), p=[0.15, 0.45, 0.2, 0.2])[:, : env.num_envs]
    for chosen in actions:
        observation, _, _, _, info = env.step(chosen)
        seen += [copies(observation), copies(info.get("final_obs", {}))]
    return seen


@pytest.mark.parametrize("renderer", RENDERERS)
def test_noise_is_added_to_the_images_that_have_it(make, renderer):
    """Clean images with noise added afterwards are the noisy images; other sensors stay as they are."""
    noisy = make(renderer=renderer)
    clean = make(renderer=renderer, sensor_noise=None)
    for _ in range(2):
        seen = noisy.reset(seed=5)[0]
        plain = clean.reset(seed=5)[0]
    for step in range(8):
        episodes = clean.episodes
        expected = copies(plain)
        for key, noise in NOISE.items():
            if key == "depth":
                metres = np.where(plain[key] < 1, plain[key] * 10, 0).astype(np.float32)
                noise.apply(metres, step_keys(episodes.key, episodes.num_steps, key))
                expected[key] = np.where(metres > 0, np.clip(metres / 10, 0, 1), 1)
            else:
                noise.apply(expected[key], step_keys(episodes.key, episodes.num_steps, key))
        for key in ("rgb", "semantic", "pointgoal_with_gps_compass"):
            np.testing.assert_array_equal(seen[key], expected[key])
        # A pixel may lie on the border between two steps of disparity.
        assert (np.abs(seen["depth"] - expected["depth"]) > 1e-5).mean() < 0.01
        assert (seen["rgb"] != plain["rgb"]).mean() > 0.5 and (seen["depth"] != plain["depth"]).mean() > 0.5
        actions = np.random.default_rng(step).integers(1, 4, N)
        seen = noisy.step(actions)[0]
        plain = clean.step(actions)[0]


def test_depth_beyond_the_clipping_range_is_measured_before_it_is_clipped(make):
    near = replace(CAMERA, max_depth=1.0, normalize_depth=False, min_depth=0.25)
    far = replace(CAMERA, max_depth=10.0, normalize_depth=False)
    clipped = make(camera=near).reset(seed=1)[0]["depth"]
    full = make(camera=far).reset(seed=1)[0]["depth"]
    assert (full > 1).any()
    np.testing.assert_allclose(clipped, np.clip(full, 0.25, 1), rtol=1e-6)


@pytest.mark.parametrize("miss", ["far", "zero"])
def test_depth_that_the_camera_does_not_see_reads_like_a_miss(make, miss):
    camera = replace(CAMERA, depth_miss=miss)

    @dataclass(frozen=True)
    class Blind(SensorNoise):
        sensor = "depth"

        def apply(self, images, keys):
            images[:, :4] = 0

    depth = make(camera=camera, sensor_noise={"depth": Blind()}).reset(seed=1)[0]["depth"]
    assert (depth[:, :4] == (1 if miss == "far" else 0)).all() and (depth[:, 4:] > 0).all()


def test_buffers_change_nothing(make):
    """A batch that returns reused arrays has the same noise as one of fresh arrays, also in ``final_obs``."""
    kept = life(make(autoreset_mode="same_step", buffers=2), steps=12)
    for one, other in zip(kept, life(make(autoreset_mode="same_step"), steps=12), strict=True):
        assert_equal(one, other)
    assert any(kept[2::2])


def test_steps_episodes_and_seeds_have_noise_of_their_own(make):
    env = make(sensors=("rgb",), sensor_noise={"rgb": SaltAndPepperNoise(0.3)}, autoreset_mode="disabled")
    pictures = [env.reset(seed=1)[0]["rgb"]]
    pose = (env.agents.position.copy(), env.agents.heading.copy())
    env.step(np.full(N, 2))
    pictures.append(env.set_pose(*pose)["rgb"])
    pictures.append(env.reset()[0]["rgb"])
    changed = [(one == 255) | (one == 0) for one in pictures]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert ((changed[one] & changed[other]).mean(axis=(1, 2, 3)) < 0.15).all()  # 0.09 if they are independent
    assert (changed[0][0] & changed[0][1]).mean() < 0.15


def test_cameras_have_noise_of_their_own(make):
    env = make(camera=RIG, sensors=("rgb", "depth"), sensor_noise={"left/depth": RedwoodNoise(), "rgb": NOISE["rgb"]})
    seen = env.reset(seed=2)[0]
    clean = make(camera=RIG, sensors=("rgb", "depth"), sensor_noise=None).reset(seed=2)[0]
    np.testing.assert_array_equal(seen["front/depth"], clean["front/depth"])
    for key in ("left/depth", "front/rgb", "left/rgb"):
        assert (seen[key] != clean[key]).mean() > 0.4
    front, left = (seen[key].astype(float) - clean[key] for key in ("front/rgb", "left/rgb"))
    assert abs(np.corrcoef(front.ravel(), left.ravel())[0, 1]) < 0.05


@pytest.mark.parametrize(
    ("noise", "sensors", "message"),
    [
        ({"colour": GaussianNoise()}, ("rgb",), "'colour'.*unknown sensor; available: 'rgb'"),
        ({"rgb": GaussianNoise()}, (), "unknown sensor; available: none"),
        ({"depth": GaussianNoise()}, ("depth",), "this noise is for 'rgb'"),
        ({"rgb": GaussianNoise}, ("rgb",), "pass an object such as GaussianNoise"),
        (GaussianNoise(), ("rgb",), "pass a dict"),
    ],
)
def test_wrong_noise_is_refused_by_name(noise, sensors, message):
    with pytest.raises(ValueError, match=f"(?s)sensor_noise=.*{message}"):
        BatchNavEnv(2, sensors=sensors, sensor_noise=noise)
    with pytest.raises(ValueError, match="'front/rgb' has noise twice"):
        BatchNavEnv(2, sensors=("rgb",), camera=RIG, sensor_noise=dict.fromkeys(("rgb", "front/rgb"), GaussianNoise()))


def test_noise_that_returns_new_images_is_refused(make):
    class Wrong(SensorNoise):
        sensor = "rgb"

        def apply(self, images, keys):
            return images + 1

    with pytest.raises(TypeError, match="write into the images"):
        make(sensors=("rgb",), sensor_noise={"rgb": Wrong()}).reset(seed=0)


def test_noise_of_once_depends_on_the_scene_and_episode_alone(make):
    """Neither the number of environments, nor the other scenes and episodes of a run, change an episode's images."""
    keywords = {"library": None, "sensors": ("rgb",), "sensor_noise": {"rgb": NOISE["rgb"]}}
    both = make(**keywords, scenes=["apartment_1", "apartment_2"], num_envs=3)
    wanted = both.simulator.schedule.index(np.array([1]), np.array([2]))
    options = {"episode_order": "once", "episodes": np.array([0, 1, *wanted])}
    seen = both.reset(seed=5, options=options)[0]["rgb"][2]
    alone = make(**keywords, scenes=["apartment_2"], num_envs=1)
    again = alone.reset(seed=5, options={"episode_order": "once", "episodes": np.array([2])})[0]["rgb"][0]
    np.testing.assert_array_equal(seen, again)
    other = alone.reset(seed=6, options={"episode_order": "once", "episodes": np.array([2])})[0]["rgb"][0]
    assert (seen != other).any()
