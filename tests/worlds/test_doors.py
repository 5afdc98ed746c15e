"""Doors open for agents, block while they are closed, and touch no one."""

import numpy as np
import pytest
from rooms import box, scene_of

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.worlds.api import MovingBodies
from gym_batchnav.worlds.doors import DISC_RADIUS, Doors

HINGE = ((-0.45, 0.0, 0.0),)
ALONG_X = (-90.0,)  # the closed leaf runs along +x, from x = -0.45 to 0.45


@pytest.fixture(scope="module")
def make():
    library = SceneLibrary.from_scenes([scene_of("hall", box((-5, 0, -5), (5, 2.6, 5), inward=True))])
    made = []

    def make(num_agents=1, doors=None, **keywords):
        given = {"library": library, "sensors": (), "renderer": "embree", "episodes": 40}
        doors = doors or (Doors(HINGE, ALONG_X),)
        made.append(BatchNavEnv(num_agents, agents_per_world=num_agents, bodies=doors, **{**given, **keywords}))
        return made[-1]

    yield make
    for env in made:
        env.close()


def put(env, *places, heading=0.0):
    """Put the agents at places (x, z)."""
    points = np.array([[x, 0, z] for x, z in places], np.float32)
    env.set_pose(env.navmesh_of(0).snap(points), np.full(len(places), heading))


def tip(env):
    """The place of the outermost disc of the door, (x, z)."""
    return env.worlds.state.position[0, -1, [0, 2]]


@pytest.mark.parametrize("side", [1, -1])
def test_a_door_opens_away_from_an_agent_who_walks_through_and_closes_again(make, side):
    env = make()
    env.reset(seed=0)
    put(env, (0.0, 3.0 * side), heading=0.0 if side == 1 else np.pi)
    np.testing.assert_allclose(tip(env), [0.45 - DISC_RADIUS, 0.0], atol=1e-5)
    widest = 0.0
    for _ in range(24):
        env.step(np.array([1]))
        widest = max(widest, -side * tip(env)[1])
        assert side * tip(env)[1] < 1e-5
        assert env.task_state.worlds.gaps().min() > -1e-3
    assert env.agents.position[0, 2] == pytest.approx(-3.0 * side, abs=0.26)  # nothing held it up
    assert widest == pytest.approx(0.9 - DISC_RADIUS, abs=1e-5)
    np.testing.assert_allclose(tip(env), [0.45 - DISC_RADIUS, 0.0], atol=1e-5)


def test_worlds_run_out_of_episodes(make):
    env = make(episodes=Episodes(order="once", count=2), max_episode_steps=2)
    env.reset(seed=0)
    for _ in range(9):
        *_, info = env.step(np.array([2]))
    assert not info["episode_valid"].any()


def test_doors_close_beside_other_doors(make):
    double = Doors(((-0.95, 0.0, 0.0),), ALONG_X), Doors(((0.95, 0.0, 0.0),), (90.0,))
    env = make(doors=double)
    env.reset(seed=0)
    closed = env.worlds.state.position.copy()
    put(env, (0.0, 1.0))
    for step in range(24):
        env.step(np.array([1]))
        if step == 4:
            assert (np.abs(env.worlds.state.position[0, 1:, 2]).max(axis=0) > 0.5).all()
    np.testing.assert_allclose(env.worlds.state.position[0, 1:], closed[0, 1:], atol=1e-5)


class Statue(MovingBodies):
    """A person in the doorway who never yields, like those of a log."""

    num, shape, radius, is_fixed, needs_start = 1, "person", 0.2, True, False

    def begin(self, motion):
        place, polygon = motion.navmesh(0).snap_with_polygon(np.array([[0.0, 0.0, 1.0]]))
        motion.state.position[motion.worlds, motion.columns] = place
        motion.state.polygon[motion.worlds, motion.columns] = polygon

    def move(self, motion): ...


def test_a_door_opens_for_others_that_never_yield(make):
    env = make(doors=(Statue(), Doors(HINGE, ALONG_X)))
    env.reset(seed=0)
    put(env, (4.0, -4.0))
    for _ in range(6):
        env.step(np.array([2]))
    assert -tip(env)[1] > 0.7


def test_a_closed_door_cannot_be_walked_through(make):
    env = make(doors=(Doors(HINGE, ALONG_X, reach=0.1),))
    for x in np.linspace(-0.4, 0.4, 5):
        env.reset(seed=0)
        put(env, (x, 1.0))
        for _ in range(8):
            env.step(np.array([1]))
        distance = np.linalg.norm(env.agents.position[0, [0, 2]] - env.worlds.state.position[0, 1:][:, [0, 2]], axis=1)
        assert distance.min() == pytest.approx(0.18 + DISC_RADIUS, abs=1e-3) and env.agents.position[0, 2] > 0.2


def test_a_door_does_not_touch_who_stands_behind_it(make):
    env = make(num_agents=2, doors=(Doors(HINGE, ALONG_X, speed_deg=20),))
    env.reset(seed=0)
    put(env, (0.0, 0.5), (0.2, -0.6))  # the nearer one opens it towards the other
    for _ in range(30):
        env.step(np.array([2, 2]))
        assert env.task_state.worlds.gaps().min() > -1e-3
    assert -0.6 < tip(env)[1] < -0.02


def test_whatever_agents_do_no_door_runs_into_them(make):
    env = make(num_agents=3, max_episode_steps=1000)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    view = env.task_state.worlds
    swings = 0.0
    for step in range(240):
        if step % 60 == 0:
            put(env, (0.0, 0.6), (0.4, -0.8), (-0.3, 1.2))
        before = tip(env).copy()
        env.step(rng.choice([1, 2, 3], size=3, p=[0.6, 0.2, 0.2]))
        swings += np.abs(tip(env) - before).sum()
        assert view.gaps().min() > -1e-3, step
    assert swings > 1.2


def test_doors_need_no_starts_of_episodes(make):
    env = make(doors=(Doors(HINGE * 3, ALONG_X * 3),), episodes=2)
    env.reset(seed=0)
    assert env.worlds.state.position.shape[1] > 3 and env.worlds.state.present.all()


def test_a_door_is_seen(make):
    env = make(sensors=("semantic",), semantic_ids={"door": 5})
    env.reset(seed=0)
    put(env, (0.0, 2.0))
    observation, *_ = env.step(np.array([2]))
    observation, *_ = env.step(np.array([3]))
    seen = observation["semantic"][0, ..., 0] == 5
    assert 0.05 < seen.mean() < 0.5
    width = seen[32].sum() / 64 * 2 * 2.0  # metres at a distance of 2 m
    assert width == pytest.approx(0.9, abs=0.1)


@pytest.mark.parametrize(
    ("doors", "message"),
    [
        (((), ()), "pass a tuple of points"),
        ((0.0, (0.0,)), "pass a tuple of points"),
        ((HINGE, (0.0, 1.0)), r"headings_deg=\(0.0, 1.0\): pass a tuple of points .* as many numbers"),
        ((HINGE[0], (0.0,)), "pass a tuple of points"),
        ((HINGE, 0.0), "headings_deg=0.0"),
        ((HINGE, (np.nan,)), "headings_deg"),
        ((HINGE, ALONG_X, 0.0), "reach=0.0"),
    ],
)
def test_wrong_doors_are_refused(doors, message):
    with pytest.raises(ValueError, match=message):
        Doors(*doors)


def test_a_door_outside_is_refused(make):
    with pytest.raises(ValueError, match="is not in a doorway of scene 'hall'"):
        make(doors=(Doors(((40.0, 0.0, 0.0),), ALONG_X),)).reset()
