"""The ids with observations of one array: their content, its precision, and that all else equals the batch."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.flat import SCAN_CAMERA, ImageObservation, ScanObservation, encode_goal
from gym_batchnav.env.ids import make_batch
from gym_batchnav.geometry import Camera
from gym_batchnav.scene.save import save_glb

GOAL = "pointgoal_with_gps_compass"
SCAN = "BatchNav/PointNavScan-v0"
IMAGE = "BatchNav/PointNavImage-v0"
SMALL = Camera(width=8, height=6)


@pytest.fixture(scope="module")
def keywords(library):
    return {"library": library, "episodes": 20, "renderer": "embree"}


@given(st.floats(0, 50), st.floats(-np.pi, np.pi))
def test_goals_are_bounded_and_read_back(distance, angle):
    goal = np.array([[distance, angle]], np.float32)
    encoded = encode_goal(goal)
    assert encoded.shape == (1, 3) and encoded.dtype == np.float32 and np.abs(encoded).max() <= 1
    cos, sin, nearness = encoded[0]
    assert abs(nearness / (1 - nearness) - distance) < 1e-6 * (1 + distance) ** 2
    assert abs(np.angle(np.exp(1j * (np.arctan2(sin, cos) - angle)))) < 1e-6


def truth_of_scan(seen):
    distance, angle = seen[GOAL].astype(np.float64).T
    return np.column_stack([seen["depth"][:, 0, :, 0], np.cos(angle), np.sin(angle), distance / (1 + distance)])


def truth_of_image(seen):
    distance, angle = seen[GOAL].astype(np.float64).T
    levels = [128 + 127 * np.cos(angle), 128 + 127 * np.sin(angle), 255 * distance / (1 + distance)]
    height, width = next(image for name, image in seen.items() if name != GOAL).shape[1:3]
    channels = [seen["rgb"][..., k] for k in range(3)] if "rgb" in seen else []
    if "depth" in seen:
        channels.append(255.0 * seen["depth"][..., 0])
    channels += [np.broadcast_to(level[:, None, None], (len(level), height, width)) for level in levels]
    return np.stack(channels, axis=-1)


WRAPPERS = {
    "scan": (ScanObservation, {"camera": SCAN_CAMERA}, truth_of_scan, 1e-6),
    "image of rgb": (ImageObservation, {"camera": SMALL, "sensors": ("rgb",)}, truth_of_image, 0.501),
    "image of depth": (ImageObservation, {"camera": SMALL, "sensors": ("depth",)}, truth_of_image, 0.501),
    "image of both": (ImageObservation, {"camera": SMALL, "sensors": ("rgb", "depth")}, truth_of_image, 0.501),
}


@pytest.mark.parametrize(
    ("name", "mode"),
    [("scan", AutoresetMode.NEXT_STEP), ("scan", AutoresetMode.DISABLED)]
    + [(name, AutoresetMode.SAME_STEP) for name in WRAPPERS],
)
def test_it_is_the_batch_with_other_observations(name, mode, keywords, opened):
    wrap, own, truth, tolerance = WRAPPERS[name]
    plain, wrapped = (
        opened(BatchNavEnv(5, autoreset_mode=mode, max_episode_steps=7, **own, **keywords)) for _ in range(2)
    )
    wrapped = wrap(wrapped)
    rng = np.random.default_rng(0)
    finals = 0
    (seen, info), (flat, flat_info) = plain.reset(seed=3), wrapped.reset(seed=3)
    for _ in range(60):
        assert wrapped.observation_space.contains(flat)
        np.testing.assert_allclose(flat, truth(seen), atol=tolerance)
        assert set(flat_info) == set(info)
        np.testing.assert_array_equal(flat_info["path_length"], info["path_length"])
        actions = rng.choice(4, size=5, p=[0.1, 0.5, 0.2, 0.2])
        seen, *scores, info = plain.step(actions)
        flat, *flat_scores, flat_info = wrapped.step(actions)
        np.testing.assert_array_equal(scores, flat_scores)
        ended = scores[1] | scores[2]
        if mode == AutoresetMode.SAME_STEP and ended.any():
            last = flat_info["final_obs"]
            assert last.dtype == flat.dtype and last.shape == flat.shape
            np.testing.assert_allclose(last[ended], truth(info["final_obs"])[ended], atol=tolerance)
            assert not last[~ended].any()
            finals += ended.sum()
        elif mode == AutoresetMode.DISABLED and ended.any():
            options = {"reset_mask": ended}
            (seen, info), (flat, flat_info) = plain.reset(options=options), wrapped.reset(options=options)
    assert finals > 10 or mode != AutoresetMode.SAME_STEP


@pytest.fixture(scope="module")
def file_keywords(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scene")
    save_glb(box_room(), folder / "room.glb")
    return {"scenes": str(folder / "room.glb"), "episodes": 20, "renderer": "embree"}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [SCAN, IMAGE])
def test_gymnasiums_checker_is_content(name, file_keywords):
    env = gymnasium.make(f"gym_batchnav:{name}", render_mode="rgb_array", **file_keywords)
    check_env(env.unwrapped)
    env.close()
    assert env.unwrapped.batch.closed


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "shape"), [(SCAN, (67,)), (IMAGE, (64, 64, 7))])
def test_made_by_gymnasium_they_are_batches_with_a_spec(name, shape, file_keywords, opened):
    envs = opened(gymnasium.make_vec(name, num_envs=3, autoreset_mode="same_step", **file_keywords))
    assert type(envs.unwrapped) is BatchNavEnv and envs.spec.id == name and envs.num_envs == 3
    assert envs.metadata["autoreset_mode"] == envs.autoreset_mode == AutoresetMode.SAME_STEP
    assert envs.single_observation_space.shape == shape and envs.observation_space.shape == (3, *shape)
    assert envs.reset(seed=0)[0].shape == (3, *shape)
    assert envs.call("render") == (None,) * 3 and envs.get_attr("num_episodes") == (20,) * 3
    envs.set_attr("render_mode", "rgb_array")
    assert [frame.shape for frame in envs.call("render")] == [frame.shape for frame in envs.render()]
    assert "<table" in envs._repr_mimebundle_()["text/html"]
    again = opened(gymnasium.make_vec(envs.spec))
    np.testing.assert_array_equal(again.reset(seed=0)[0], envs.reset(seed=0)[0])


@pytest.mark.parametrize("name", ["PointNavScan", "PointNavImage"])
def test_a_single_environment_behaves_as_one_of_a_batch(name, keywords, opened):
    one = opened(gymnasium.make(f"BatchNav/{name}-v0", **keywords)).unwrapped
    batch = opened(make_batch(name, 2, autoreset_mode="disabled", **keywords))
    assert one.observation_space == batch.single_observation_space
    for seen, rows in ((one.reset(seed=6), batch.reset(seed=6)), (one.step(1), batch.step(np.array([1, 1])))):
        np.testing.assert_array_equal(seen[0], rows[0][0])
        assert seen[0].dtype == rows[0].dtype


def test_returned_arrays_are_never_written_again(keywords, opened):
    env = opened(make_batch("PointNavScan", 2, buffers=2, **keywords))
    kept = env.reset(seed=0)[0]
    copy = kept.copy()
    for _ in range(5):
        env.step(np.array([2, 2]))
    np.testing.assert_array_equal(kept, copy)


@pytest.mark.parametrize(
    ("name", "wrong", "remedy"),
    [
        ("PointNavScan", {"camera": Camera()}, r"64x64 pixels.*height=1"),
        ("PointNavScan", {"camera": Camera(height=1, normalize_depth=False)}, "normalize_depth=False.*max_depth"),
        ("PointNavScan", {"sensors": ("rgb",)}, r"sensors=\('rgb',\).*PointNavImage-v0"),
        ("PointNavScan", {"sensors": ()}, r"sensors=\(\).*depth"),
        ("PointNavImage", {"sensors": ("depth", "semantic")}, r"'semantic'\).*'rgb', 'depth' or both"),
        ("PointNavImage", {"sensors": ()}, r"sensors=\(\).*'rgb', 'depth' or both"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_remedy(name, wrong, remedy, keywords):
    with pytest.raises(ValueError, match=remedy):
        make_batch(name, 2, **{**keywords, **wrong})


def test_a_batch_with_images_on_a_gpu_is_refused(keywords):
    batch = make_batch("PointNav", 2, **keywords)
    batch.cameras.device = "cuda"
    with pytest.raises(ValueError, match=r"obs_device='cuda'.*BatchNav/PointNav-v0"):
        ImageObservation(batch)
    batch.cameras.device = "cpu"
    batch.close()


def test_a_refused_batch_is_closed(keywords, monkeypatch):
    made = []
    init = BatchNavEnv.__init__
    monkeypatch.setattr(BatchNavEnv, "__init__", lambda env, *args, **kw: init(env, *args, **kw) or made.append(env))
    with pytest.raises(ValueError):
        make_batch("PointNavScan", 2, camera=Camera(), **keywords)
    assert made[0].closed
