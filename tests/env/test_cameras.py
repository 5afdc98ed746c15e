"""Resets copy the images of agents that have not moved, and the result equals a full render."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from rooms import box_room
from walks import assert_equal

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Scenes
from gym_batchnav.geometry import Camera

N = 6
RESIDENT = {"scenes": [box_room(f"room_{i}", width=8 + i) for i in range(5)], "episodes": 20}
ROTATING = {**RESIDENT, "scenes": Scenes(RESIDENT["scenes"], resident=2, rotate_every=7, deterministic_rotation=True)}


@pytest.fixture
def make(opened):
    def make(**kwargs):
        keywords = {"camera": Camera(width=20, height=16), "renderer": "embree"}
        return opened(BatchNavEnv(N, **{**keywords, **RESIDENT, "autoreset_mode": "disabled", **kwargs}))

    return make


def count_views(env, monkeypatch):
    """Return a list to which new targets of the renderer append the number of views of each render."""
    counts = []
    make_target = env.renderer.target

    def target(*args, **kwargs):
        made = make_target(*args, **kwargs)
        begin = made.begin
        monkeypatch.setattr(made, "begin", lambda slots, *rest: counts.append(len(slots)) or begin(slots, *rest))
        return made

    monkeypatch.setattr(env.renderer, "target", target)
    return counts


def live(env, scribbling):
    """Step, reset and move at random; return every observation."""
    rng = np.random.default_rng(0)
    seen = []
    states = []
    observation = env.reset(seed=0)[0]
    for chosen in rng.integers(7, size=80):
        seen.append({name: values.copy() for name, values in observation.items()})
        if scribbling:
            for values in observation.values():
                values[:] = 1
        mask = rng.random(N) < 0.4
        actions = rng.choice(4, size=N, p=[0.1, 0.4, 0.3, 0.2])
        if env.autoreset_mode == AutoresetMode.DISABLED and env.episodes.done.any():
            observation = env.reset(options={"reset_mask": env.episodes.done.copy()})[0]
        elif chosen == 0:
            observation = env.reset(options={"reset_mask": mask})[0]
        elif chosen == 1:
            observation = env.set_pose(env.agents.position.copy(), rng.uniform(-3, 3, N), mask)
        elif chosen == 2 and states:
            observation = env.set_state(states[rng.integers(len(states))])
        elif chosen == 3:
            states.append(env.get_state())
            observation = {"rgb": env.pictures(np.array([2, 0]), size=32)}
        elif chosen == 4:
            env.send(actions)  # and never received
            observation = env.reset(options={"reset_mask": env.episodes.done | mask})[0]
        else:
            observation = env.step(actions)[0]
    return seen


@pytest.mark.parametrize(
    ("mode", "scenes", "renderer"),
    [
        ("disabled", RESIDENT, "embree"),
        ("disabled", ROTATING, "embree"),
        ("same_step", ROTATING, "embree"),
        pytest.param("disabled", ROTATING, "opengl", marks=[pytest.mark.opengl, pytest.mark.slow]),
    ],
)
def test_what_is_kept_is_what_would_be_drawn(make, mode, scenes, renderer):
    keywords = {"autoreset_mode": mode, "sensors": ("rgb", "depth", "semantic"), "renderer": renderer, **scenes}
    kept = make(**keywords)
    drawn = make(**keywords)
    drawn.cameras.refresh = lambda agents: (drawn.cameras.begin(agents), drawn.cameras.finish())[1]
    for left, right in zip(live(kept, True), live(drawn, False), strict=True):
        assert_equal(left, right)


@pytest.mark.parametrize("buffers", [None, 2])
def test_only_who_has_moved_is_drawn_unless_the_caller_holds_the_pictures(make, monkeypatch, buffers):
    env = make(buffers=buffers)
    counts = count_views(env, monkeypatch)
    env.reset(seed=0)
    env.step(np.full(N, 2))
    assert counts == [N, N]
    mask = np.arange(N) == 4
    env.reset(options={"reset_mask": mask})
    env.set_pose(env.agents.position.copy(), env.agents.heading + 1, mask)
    env.set_pose(env.agents.position.copy(), env.agents.heading.copy())
    assert counts[2:] == ([N, N, N] if buffers else [1, 1, 1])
    env.step(np.full(N, 2))
    env.set_pose(env.agents.position.copy(), env.agents.heading.copy())
    env.reset()
    assert counts[5:] == ([N, N, N] if buffers else [N, N])


def test_who_has_looked_up_is_drawn_again_and_sees_what_a_tilted_camera_sees(make, monkeypatch):
    env = make(camera=Camera(20, 16))
    tilted = make(camera=Camera(20, 16, pitch_deg=30))
    counts = count_views(env, monkeypatch)
    level = env.reset(seed=0)[0]
    expected = tilted.reset(seed=0)[0]
    here = (env.agents.position.copy(), env.agents.heading.copy())
    pitch = np.full(N, np.radians(30))
    seen = env.set_pose(*here, np.arange(N) == 2, pitch=pitch)
    assert counts == [N, 1]
    again = env.set_pose(*here)  # keeps the pitch
    np.testing.assert_array_equal(again["depth"], seen["depth"])
    np.testing.assert_array_equal(env.agents.pitch, np.where(np.arange(N) == 2, pitch, 0).astype(np.float32))
    for index in range(N):
        np.testing.assert_array_equal(seen["depth"][index], (expected if index == 2 else level)["depth"][index])
    assert (level["depth"][2] != expected["depth"][2]).any()
    assert (env.pictures()[2] == tilted.pictures()[2]).all() and (env.pictures()[3] != tilted.pictures()[3]).any()
    env.reset(options={"reset_mask": np.arange(N) == 2})
    assert env.agents.pitch[2] == 0


def test_after_an_interrupted_drawing_the_next_is_right(make, monkeypatch):
    env = make()
    other = make()
    mask = np.arange(N) < 2
    for one in (env, other):
        one.reset(seed=0)
        one.reset(options={"reset_mask": mask})

    def interrupt(*_):
        raise KeyboardInterrupt

    (partial,) = env.cameras._partial_targets
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(partial, "finish", interrupt)
        env.reset(options={"reset_mask": mask})
    other.reset(options={"reset_mask": mask})
    for _ in range(2):
        assert_equal(env.reset(options={"reset_mask": mask})[0], other.reset(options={"reset_mask": mask})[0])
