"""Flying agents: dynamics, collisions in rooms, the follower, and independence of threads."""

from dataclasses import replace

import numba
import numpy as np
import pytest
from rooms import box, box_room

from gym_batchnav.actions.choice import make_actions
from gym_batchnav.flight.actions import FlightActions
from gym_batchnav.flight.air import Air, find_air
from gym_batchnav.flight.kernels.sweep import distances
from gym_batchnav.state import StepOutcome, agent_state

AHEAD, UP, SIDE, LEFT = np.eye(4, dtype=np.float32)


def floor(count=2000):
    return np.random.default_rng(0).uniform([-3.8, 0, -2.8], [3.8, 0, 2.8], (count, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def air() -> Air:
    scene = box_room()
    found = find_air(scene.vertices[scene.triangles], floor(), 0.15, 0.15)
    return found.with_goals(found.random_points(4, np.random.default_rng(0)))


@pytest.fixture(scope="module")
def hall() -> Air:
    """Room without obstacles."""
    found = find_air(box((-40, -10, -40), (40, 30, 40), inward=True), floor(), 0.15, 0.15)
    return found.with_goals(found.random_points(1, np.random.default_rng(0)))


class Flock:
    """N agents in one scene."""

    def __init__(self, air, position, heading=0.0, **settings):
        self.actions = FlightActions(**settings)
        count = len(position)
        self.movers = self.actions.make_agents(1, self.actions.buffers(count))
        self.movers.set_slot(0, air)
        self.state = agent_state(count)
        self.state.position[:] = position
        self.state.heading[:] = heading
        self.moved = np.zeros(count, np.float32)
        self.collided = np.zeros(count, bool)

    def step(self, actions, active=None, sliding=True):
        state = self.state
        actions = np.broadcast_to(np.asarray(actions, np.float32), (len(state.position), 4))
        commands = self.actions.decode(self.actions.validate(actions, len(actions)))
        active = np.ones(len(actions), bool) if active is None else active
        self.movers.step(commands, state, active, StepOutcome(self.moved, self.collided), sliding=sliding)
        return state.position.copy()


MIDDLE = [[0.0, 1.5, 0.0]]


class TestDynamics:
    def test_a_command_is_in_the_frame_of_the_body(self, hall):
        for heading, expected in ((0, [0, 0, -1]), (np.pi / 2, [-1, 0, 0])):
            flock = Flock(hall, MIDDLE, heading)
            offset = flock.step(AHEAD) - MIDDLE
            np.testing.assert_allclose(offset / np.linalg.norm(offset), [expected], atol=1e-5)
        assert (Flock(hall, MIDDLE).step(UP) - MIDDLE)[0, 1] > 0
        assert (Flock(hall, MIDDLE).step(SIDE) - MIDDLE)[0, 0] > 0  # right of -z is +x
        turned = Flock(hall, MIDDLE)
        turned.step(LEFT)
        assert turned.state.heading[0] == pytest.approx(np.radians(90) * 0.2)

    def test_velocity_control_follows_the_exact_solution(self, hall):
        flock = Flock(hall, MIDDLE, max_speed=2.0, response_time=0.5, time_step=0.2, substeps=3)
        for step in range(1, 11):
            position = flock.step(0.5 * AHEAD)
            time = 0.2 * step
            speed = 1.0 * (1 - np.exp(-time / 0.5))
            assert -flock.movers.velocity[0, 2] == pytest.approx(speed, rel=1e-5)
            assert -position[0, 2] == pytest.approx(time - 0.5 * speed, rel=1e-5)

    def test_acceleration_control_ends_where_drag_balances_it(self, hall):
        settings = {"control": "acceleration", "max_acceleration": 3.0, "drag": 2.0, "max_speed": 9.0}
        flock = Flock(hall, [[-5.0, 1.5, 0.0]], time_step=0.1, **settings)
        flock.step(SIDE)
        assert flock.movers.velocity[0, 0] == pytest.approx(1.5 * (1 - np.exp(-0.2)), rel=1e-5)
        for _ in range(60):
            flock.step(SIDE)
        assert flock.movers.velocity[0, 0] == pytest.approx(1.5, rel=1e-4)
        for _ in range(60):
            flock.step([0, 0, 0, 0])
        np.testing.assert_allclose(flock.movers.velocity, 0, atol=1e-4)

    def test_speed_is_limited_in_every_direction(self, hall):
        for settings in ({}, {"control": "acceleration", "drag": 0.1}):
            flock = Flock(hall, MIDDLE, max_speed=1.0, **settings)
            for _ in range(30):
                before = flock.state.position.copy()
                after = flock.step([1, 1, -1, 0.3])
                assert np.linalg.norm(flock.movers.velocity) <= 1 + 1e-6
                assert np.linalg.norm(after - before) <= 0.2 * (1 + 1e-5)
            assert np.linalg.norm(flock.movers.velocity) > 0.9

    def test_inactive_agents_keep_pose_and_velocity(self, hall):
        flock = Flock(hall, MIDDLE * 2)
        flock.step(AHEAD)
        position, velocity = flock.state.position.copy(), flock.movers.velocity.copy()
        flock.step(AHEAD, active=np.array([False, True]))
        np.testing.assert_array_equal(flock.state.position[0], position[0])
        np.testing.assert_array_equal(flock.movers.velocity[0], velocity[0])
        assert flock.moved[0] == 0 and flock.state.position[1, 2] < position[1, 2]


class TestCollisions:
    def test_the_velocity_into_a_wall_is_lost_and_that_along_it_kept(self, air):
        flock = Flock(air, [[-2.0, 1.3, -1.0]])  # the wall is at x = -4
        for _ in range(20):
            flock.step([0.25, 0, -1, 0])
            collided = flock.collided[0]
        assert flock.state.position[0, 0] == pytest.approx(-4 + 0.15, abs=1e-4) and collided
        assert abs(flock.movers.velocity[0, 0]) < 1e-4 and flock.movers.velocity[0, 2] < -0.2

    def test_without_sliding_an_agent_stops(self, air):
        flock = Flock(air, [[-3.8, 1.3, -1.0]])
        flock.step([0.5, 0, -1, 0], sliding=False)
        after = flock.step([0.5, 0, -1, 0], sliding=False)
        again = flock.step([0.5, 0, -1, 0], sliding=False)
        np.testing.assert_allclose(after, again, atol=1e-5)

    @pytest.mark.parametrize("speed", [1.5, 900.0])
    def test_nobody_ever_touches_a_surface_deeper_than_a_millimetre(self, air, speed):
        rng = np.random.default_rng(0)
        flock = Flock(air, air.random_points(64, rng), max_speed=speed, response_time=0.05)
        out = np.empty(64)
        for step in range(120):
            if step % 10 == 0:
                actions = rng.choice([-1, 0, 1], (64, 4))
            flock.step(actions)
            distances(air.surfaces, flock.state.position.astype(np.float64), 1.0, out)
            assert out.min() >= 0.15 - 1e-3
            assert (np.abs(flock.state.position) <= [4, 2.6, 3]).all()  # nobody leaves the room

    def test_without_a_ceiling_nobody_flies_where_no_path_begins(self):
        scene = np.concatenate([box((-4, 0, -3), (4, 3, 3), inward=True), box((-0.1, 0, -3), (0.1, 2.2, 3))])
        found = find_air(scene[~(scene[:, :, 1] == 3).all(axis=1)], floor(), 0.15, 0.15)
        found = found.with_goals(np.array([[2.5, 0.5, 0]], np.float32))
        flock = Flock(found, [[-2.5, 0.5, 0]])
        for _ in range(20):
            flock.step(UP)
        assert flock.collided.all() and flock.state.position[0, 1] == pytest.approx(2.6, abs=0.11)
        assert np.isfinite(found.distance(flock.state.position, np.zeros(1, np.int32))).all()

    def test_threads_do_not_change_anything(self, air):
        states = []
        for threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(threads)
            rng = np.random.default_rng(1)
            flock = Flock(air, air.random_points(100, rng), max_speed=3)
            for _ in range(40):
                flock.step(rng.uniform(-1, 1, (100, 4)))
            states.append((flock.state.position, flock.movers.velocity, flock.state.heading))
        for one, other in zip(*states, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("control", ["velocity", "acceleration"])
def test_the_follower_reaches_every_goal_on_about_the_shortest_path(air, control):
    rng = np.random.default_rng(0)
    start = air.random_points(100, rng)
    flock = Flock(air, start, rng.uniform(-3, 3, 100), control=control)
    goals = np.arange(100, dtype=np.int32) % 4
    shortest = air.distance(start, goals)
    flown = np.zeros(100)
    near = np.zeros(100, bool)
    for _ in range(250):
        actions = flock.actions.follow(flock.movers, flock.state, goals, 0.2, True)
        active = ~near
        flock.step(actions, active)
        flown += flock.moved
        near |= air.distance(flock.state.position, goals) < 0.2
    assert near.all()
    nowhere = Flock(air, [[50.0, 1.0, 0.0]], control=control)
    actions = nowhere.actions.follow(nowhere.movers, nowhere.state, goals[:1], 0.2, True)
    np.testing.assert_allclose(actions[0, :3], 0)  # without a path it hovers
    assert (flown <= 1.1 * shortest + 0.3).all() and (flown >= shortest - 0.3).all()


def test_an_empty_slot_moves_nobody_and_has_no_paths():
    movers = FlightActions().make_agents(2, FlightActions().buffers(3))
    state = agent_state(3)
    flock = FlightActions().decode(np.ones((3, 4), np.float32))
    out = np.zeros(3, np.float32)
    movers.step(flock, state, np.ones(3, bool), StepOutcome(out, np.zeros(3, bool)), sliding=True)
    assert not state.position.any()
    movers.distance(state.slot, state.polygon, state.position, np.zeros(3, np.int32), out)
    assert np.isinf(out).all()


@pytest.mark.parametrize(("name", "array"), [("position", np.zeros((3, 3))), ("heading", np.zeros(2, np.float32))])
def test_arrays_that_kernels_could_not_fly_are_refused(name, array):
    movers = FlightActions().make_agents(1, FlightActions().buffers(3))
    commands = FlightActions().decode(np.ones((3, 4), np.float32))
    state = replace(agent_state(3), **{name: array})
    outcome = StepOutcome(np.zeros(3, np.float32), np.zeros(3, bool))
    for broken, active, named in ((state, np.ones(3, bool), name), (agent_state(3), np.ones(2, bool), "active")):
        with pytest.raises(TypeError, match=named):
            movers.step(commands, broken, active, outcome, sliding=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"control": "thrust"}, {"max_speed": 0}, {"max_speed": np.inf}, {"time_step": -1}, {"substeps": 0},
        {"substeps": 10**6}, {"response_time": 0}, {"drag": np.nan}, {"max_yaw_rate_deg": -1},
        {"max_acceleration": 20, "drag": 1e-3, "control": "acceleration"},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FlightActions(**wrong)


def test_actions_are_checked():
    assert make_actions("flight") == FlightActions()
    with pytest.raises(ValueError, match=r"actions\[1, 3\] = 2.0 \(yaw\)"):
        FlightActions().validate(np.array([[0, 0, 0, 0], [0, 0, 0, 2.0]]), 2)
    with pytest.raises(ValueError, match="forward, up, side, yaw"):
        FlightActions().validate(np.zeros((2, 3)), 2)
