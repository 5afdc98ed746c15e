"""Bodies of a log walk where it has them, and reactive ones with regard to others."""

import numpy as np
import pytest
from logs import make_log
from rooms import box, scene_of

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.worlds.doors import DISC_RADIUS, DISCS, Doors
from gym_batchnav.worlds.log import HURRY, LoggedBodies

STRIDE = 0.2  # metres per step


def hall(name="hall"):
    return scene_of(name, box((-7, 0, -5), (7, 2.6, 5), inward=True))


@pytest.fixture(scope="module")
def make():
    library = SceneLibrary.from_scenes([hall()])
    made = []

    def make(*bodies, num_envs=1, **keywords):
        given = {"library": library, "sensors": (), "renderer": "embree", "episodes": 40}
        made.append(BatchNavEnv(num_envs, **{**given, "bodies": bodies, **keywords}))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture(scope="module")
def floor(make):
    """Height of the navmesh, metres."""
    env = make(LoggedBodies(walk(0.0)))
    return float(env.simulator.navmesh(0).snap(np.zeros((1, 3), np.float32))[0, 1])


def walk(floor, num_steps=30, x=-3.0, z=0.0, **changes):
    """The log of a person walking along +x."""
    steps = np.arange(num_steps + 1)
    position = np.stack([x + STRIDE * steps, np.full(num_steps + 1, floor), np.full(num_steps + 1, z)], axis=1)
    return make_log(position[:, None], num_agents=1, scene="hall", shapes=("person",), **changes)


def poses(env, num_steps, action=2):
    """Positions [T + 1, B, 3] of the bodies of the first world."""
    state = env.worlds.state
    rows = [state.position[0].copy()]
    for _ in range(num_steps):
        env.step(np.full(env.num_envs, action))
        rows.append(state.position[0].copy())
    return np.stack(rows)


def put(env, x, z, world=0):
    """Put an agent somewhere in the hall."""
    position = env.agents.position.copy()
    position[world] = env.navmesh_of(0).snap(np.array([[x, 0, z]], np.float32))[0]
    env.set_pose(position, np.zeros(env.num_envs))


@pytest.mark.parametrize("reactive", [False, True])
def test_alone_they_go_where_they_went(make, floor, reactive):
    log = walk(floor, heading=np.linspace(0, 1, 31, dtype=np.float32)[:, None])
    env = make(LoggedBodies(log, reactive))
    env.reset(seed=0)
    put(env, 0, 4)
    found = poses(env, 40)[:, 1]
    np.testing.assert_allclose(found[:31], log.position[:, 0], atol=0.0 if not reactive else 1e-3)
    np.testing.assert_allclose(found[31:], np.broadcast_to(log.position[-1, 0], (10, 3)), atol=1e-3)  # it stands
    assert env.worlds.state.heading[0, 1] == pytest.approx(1.0)


def test_fixed_bodies_pass_agents_who_stop_at_them(make, floor):
    log = walk(floor)
    env = make(LoggedBodies(log))
    env.reset(seed=0)
    put(env, 0.0, 0.0)
    found = poses(env, 30)
    np.testing.assert_array_equal(found[:, 1], log.position[:, 0])
    assert np.ptp(found[:, 0], axis=0).max() == 0
    assert np.linalg.norm(found[:, 0] - found[:, 1], axis=1).min() < 0.1  # right through it


def test_reactive_bodies_wait_for_agents_and_hurry_after_their_log(make, floor):
    log = walk(floor, num_steps=40)
    env = make(LoggedBodies(log, reactive=True))
    env.reset(seed=0)
    put(env, -1.0, 0.0)
    found = poses(env, 20)
    gap = np.linalg.norm(found[:, 0] - found[:, 1], axis=1)
    assert gap.min() > 0.38 - 1e-3 and gap[-1] == pytest.approx(0.38, abs=2e-3)
    assert env.worlds.state.touched[0, 1]
    put(env, 0, 4)
    free = poses(env, 20)[:, 1]
    strides = np.linalg.norm(np.diff(free, axis=0), axis=1)
    assert strides.max() == pytest.approx(HURRY * STRIDE, rel=0.02)
    behind = np.abs(log.position[20:, 0] - free).max(axis=1)
    late = behind[0]
    expected = np.maximum(late - (HURRY - 1) * STRIDE * np.arange(21), 0)  # it gains half a stride in each step
    np.testing.assert_allclose(behind, expected, atol=STRIDE)
    assert late > 2 and behind[-1] < 0.4


def test_reactive_bodies_keep_to_their_path_round_a_corner(make, floor):
    """One that was held up walks along the log, not straight to where the log has it now."""
    steps = np.minimum(np.arange(41), 20)
    turned = np.maximum(np.arange(41) - 20, 0)
    position = np.stack([-3 + STRIDE * steps, np.full(41, floor), STRIDE * turned], axis=1)
    log = make_log(position[:, None], scene="hall", shapes=("person",))
    env = make(LoggedBodies(log, reactive=True))
    env.reset(seed=0)
    put(env, -2.0, 0.0)
    poses(env, 38)
    put(env, -5, -4)
    found = poses(env, 40)[:, 1]
    off = np.minimum(np.abs(found[:, 2]), np.abs(found[:, 0] - 1.0))
    assert off.max() < 0.25
    np.testing.assert_allclose(found[-1], position[-1], atol=1e-2)


def test_worlds_run_the_log_from_the_beginning_of_their_own_episodes(make, floor):
    log = walk(floor)
    env = make(LoggedBodies(log), num_envs=3, max_episode_steps=20, autoreset_mode="same_step")
    env.reset(seed=0)
    for _ in range(5):
        env.step(np.full(3, 2))
    env.reset(options={"reset_mask": np.array([False, True, False])})
    for step in range(30):
        env.step(np.full(3, 2))
        rows = (np.array([6, 1, 6]) + step) % 20
        np.testing.assert_array_equal(env.worlds.state.position[:, 1], log.position[rows, 0])


def test_some_bodies_are_left_out_and_keep_their_looks(make, floor):
    position = np.tile(walk(floor).position, (1, 3, 1)) + np.array([[[0, 0, 0], [0, 0, 1], [0, 0, 2]]], np.float32)
    log = make_log(position, scene="hall", shapes=("robot", "dog", "person"), radius=np.array([0.18, 0.15, 0.2]))
    env = make(LoggedBodies(log, without=(0,)))
    env.reset(seed=0)
    assert env.worlds.shapes == ("robot", "dog", "person")
    np.testing.assert_array_equal(env.worlds.radius, [0.18, 0.15, 0.2])
    np.testing.assert_array_equal(env.worlds.state.position[0, 1:], log.position[0, 1:])
    for without in ((3,), (0, 1, 2), 0):
        with pytest.raises(ValueError, match="pass numbers of logged bodies, 0 to 2, but not all"):
            LoggedBodies(log, without=without)
    with pytest.raises(ValueError, match=r"log='a\.npz': pass a WorldLog"):
        LoggedBodies("a.npz")


@pytest.mark.parametrize("reactive", [False, True])
def test_doors_of_a_log_swing_where_no_agent_can_walk(make, floor, reactive):
    """The log of a door at a wall, of which no part is on the navmesh when it is closed."""
    angle = np.linspace(0, np.pi / 2, 11)
    along = DISC_RADIUS * (2 * np.arange(DISCS) + 1)
    x, z = along * np.cos(angle)[:, None], 4.95 - along * np.sin(angle)[:, None]
    position = np.stack(np.broadcast_arrays(x, floor, z), -1)
    person = np.broadcast_to(np.array([-3, floor, 0]), (11, 1, 3))
    shapes = ("person", *Doors(((0, 0, 4.95),), (-90.0,)).shape)
    radius = np.full(5, DISC_RADIUS)
    log = make_log(np.concatenate([person, position], axis=1), scene="hall", shapes=shapes, radius=radius)
    env = make(LoggedBodies(log, reactive))
    env.reset(seed=0)
    np.testing.assert_allclose(poses(env, 10)[:, 1:], log.position, atol=1e-5)


def test_another_scene_navmesh_or_duration_is_refused(make, floor, tmp_path):
    other = make(LoggedBodies(walk(floor)), library=SceneLibrary.from_scenes([hall("other")]))
    with pytest.raises(ValueError, match="bodies logged in scene 'hall' cannot walk in 'other'"):
        other.reset()
    with pytest.raises(ValueError, match="leaves the navmesh"):
        make(LoggedBodies(walk(floor, x=5.0))).reset()
    with pytest.raises(ValueError, match=r"logged every 0.1 s cannot walk in steps of 0.25 s"):
        make(LoggedBodies(walk(floor, seconds=0.1))).reset()
