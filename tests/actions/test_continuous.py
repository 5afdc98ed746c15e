"""Continuous actions: closed forms of the motion, walls, STOP, and the whole environment with each of them."""

import numpy as np
import pytest
from floors import floor_plan
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav import BatchNavEnv
from gym_batchnav.actions.continuous import HolonomicActions, VelocityActions, WaypointActions
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.state import Commands, StepOutcome, agent_state
from gym_batchnav.task.sensors import PreviousAction
from gym_batchnav.testing import check_vector_env

KINDS = {"velocity": VelocityActions, "waypoint": WaypointActions, "holonomic": HolonomicActions}
HALL = ["0" * 12] * 12
unit = st.floats(-1, 1, width=32)


def move(mesh, position, heading, commands, sliding=True):
    """The agents after a step on a mesh, the metres that they walked, and whether they collided."""
    size = len(position)
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, mesh.tables(np.asarray(position[:1])))
    agents = agent_state(size)
    agents.position[:], agents.polygon[:] = mesh.snap_with_polygon(np.asarray(position, float))
    agents.heading[:] = heading
    moved = np.zeros(size, np.float32)
    collided = np.zeros(size, bool)
    navmeshes.step(commands, agents, np.ones(size, bool), StepOutcome(moved, collided), sliding=sliding)
    return agents, moved, collided


@given(linear=st.floats(0.05, 2), side=st.floats(-1, 1), angular=st.floats(-3, 3), heading=st.floats(-3, 3))
def test_velocities_are_integrated_exactly(linear, side, angular, heading):
    """The reference follows the velocities in 20,000 small steps."""
    stop = np.zeros(1, bool)
    amounts = (np.array([angular]), np.array([linear]), np.array([side]))
    commands = Commands(*amounts, stop, is_arc=True, longest_part=0.25)
    agents, moved, collided = move(floor_plan(HALL), np.array([[6, 0, 6]]), heading, commands)
    heading = np.float32(heading)
    angles = heading + angular * (np.arange(20_000) + 0.5) / 20_000
    sin = np.mean(np.sin(angles))
    cos = np.mean(np.cos(angles))
    expected = np.array([6 - sin * linear + cos * side, 0, 6 - cos * linear - sin * side])
    length = np.hypot(linear, side)
    np.testing.assert_allclose(agents.position[0], expected, atol=3e-6)
    np.testing.assert_allclose(np.cos(agents.heading - heading - angular), 1, atol=1e-6)
    assert 0.998 * length <= moved[0] <= length * (1 + 1e-6) and not collided[0]


def test_sideways_is_to_the_right_of_the_new_heading():
    zero, stop = np.zeros(1), np.zeros(1, bool)
    commands = Commands(zero + np.pi / 2, zero + 1.0, zero + 0.5, stop)
    agents, moved, _ = move(floor_plan(HALL), np.array([[6, 0, 6]]), 0.0, commands)
    np.testing.assert_allclose(agents.position, [[5, 0, 5.5]], atol=1e-6)  # now facing -x, so -z is on the right
    np.testing.assert_allclose(moved, np.hypot(1, 0.5), rtol=1e-6)


@pytest.mark.parametrize("sliding", [True, False])
def test_a_long_walk_is_the_sum_of_short_ones(sliding):
    """The reference calls NavMesh.move part by part."""
    mesh = floor_plan(["000000", "0.0.00", "000000", "00..00", "000000"])
    rng = np.random.default_rng(0)
    start = mesh.random_points(300, rng)
    heading = rng.uniform(-np.pi, np.pi, 300).astype(np.float32)
    length = rng.uniform(0.3, 4, 300)
    zero, stop = np.zeros(300), np.zeros(300, bool)
    agents, moved, collided = move(mesh, start, heading, Commands(zero, length, zero, stop, longest_part=0.25), sliding)
    parts = np.ceil(length / 0.25).astype(int)
    at = start.astype(np.float64)
    walked = np.zeros(300)
    hit = np.zeros(300, bool)
    for part in range(parts.max()):
        share = np.where(part < parts, length / parts, 0)
        ends = at - share[:, None] * np.stack([np.sin(heading), 0 * heading, np.cos(heading)], 1)
        to, blocked = mesh.move(at, ends, sliding)
        walked += np.linalg.norm(to - at, axis=1)
        hit |= blocked & (part < parts)
        at = to.astype(np.float64)
    near = np.linalg.norm(agents.position - at, axis=1) < 1e-3
    assert near.mean() > 0.99  # rounding of the reference's points may decide on which side of a corner one passes
    np.testing.assert_allclose(moved[near], walked[near], atol=1e-3)
    assert (collided == hit)[near].mean() > 0.99 and 0.2 < collided.mean() < 0.9


@pytest.mark.parametrize("sliding", [True, False])
def test_no_walk_goes_through_a_wall(sliding):
    """An agent that passed a wall would end farther away, along the floor, than it has walked."""
    mesh = floor_plan(["00000", "0...0", "00000", "0.0.0", "00000"])
    rng = np.random.default_rng(1)
    start = mesh.random_points(500, rng)
    zero, stop = np.zeros(500), np.zeros(500, bool)
    for is_arc in (False, True):
        turn = rng.uniform(-np.pi, np.pi, 500)
        commands = Commands(turn, zero + 4, zero + 1, stop, is_arc=is_arc, longest_part=0.25)
        agents, moved, collided = move(mesh, start, 0.5, commands, sliding)
        cut = 0.15 if sliding else 2e-3  # metres: a slide of 0.25 m may cut a corner, as in Habitat
        assert (mesh.geodesic_distance(start, agents.position) <= moved + cut).all()
        assert collided.mean() > 0.3


@given(a=unit, b=unit)
def test_velocities_have_their_units(a, b):
    kind = VelocityActions((-0.5, 1.5), (-20, 60), time_step=0.2, look_range_deg=(-9, 9), stop_component=True)
    commands = kind.decode(kind.validate(np.array([[a, b, 1, -1]]), 1))
    np.testing.assert_allclose(commands.forward, 0.2 * (-0.5 + (a + 1)), atol=1e-9)
    np.testing.assert_allclose(np.degrees(commands.turn), 0.2 * (-20 + 40 * (b + 1)), atol=1e-9)
    np.testing.assert_allclose(np.degrees(commands.look), 1.8, atol=1e-9)
    assert commands.is_arc and not commands.stop[0]


def test_waypoints_and_holonomic_moves_have_their_units():
    commands = WaypointActions(3.0, 90).decode(np.array([[0, 1], [1, -0.5]], np.float32))
    np.testing.assert_allclose(commands.forward, [1.5, 3])
    np.testing.assert_allclose(np.degrees(commands.turn), [90, -45])
    commands = HolonomicActions(0.2, 0.1, 30).decode(np.array([[1, -1, 0.5]], np.float32))
    np.testing.assert_allclose([*commands.forward, *commands.side, *np.degrees(commands.turn)], [0.2, -0.1, 15])


CALLS = [  # actions, and whether each calls STOP
    (VelocityActions(), [[-1, 0], [-0.81, 0.09], [-0.79, 0], [-1, 0.11]], [True, True, False, False]),
    (WaypointActions(), [[-1, 0], [-0.91, -0.04], [-0.89, 0], [-1, 0.06]], [True, True, False, False]),
    (HolonomicActions(), [[0, 0, 0], [0.09, 0, -0.09], [0.08, 0.08, 0], [0, 0, 0.11]], [True, True, False, False]),
    (VelocityActions(stop_component=True), [[1, 1, 0.1], [-1, 0, 0], [-1, 0, -1]], [True, False, False]),
    (WaypointActions(stop_component=True), [[1, 1, 0.1], [-1, 0, 0], [-1, 0, -1]], [True, False, False]),
    (HolonomicActions(stop_component=True), [[1, 1, 1, 0.1], [0, 0, 0, 0]], [True, False]),
]


@pytest.mark.parametrize(("kind", "actions", "stops"), CALLS)
def test_stop_is_called_by_standing_still_or_by_a_component(kind, actions, stops):
    commands = kind.decode(np.array(actions, np.float32))
    assert commands.stop.tolist() == stops
    for amount in (commands.turn, commands.forward, commands.side):
        assert not amount[commands.stop].any()  # an agent that stops does not move


@pytest.mark.parametrize("kind", KINDS.values())
@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ([1.5, 0], r"actions\[1, 0\] = 1\.5 \((linear|distance|forward)\): pass numbers from -1 to 1"),
        ([0, np.nan], r"actions\[1, 1\] = nan \((angular|angle|side)\)"),
        ([0, -np.inf], r"actions\[1, 1\] = -inf"),
    ],
)
def test_actions_outside_the_box_are_refused(kind, wrong, text):
    actions = np.zeros((3, len(kind().components)))
    actions[1, :2] = wrong
    with pytest.raises(ValueError, match=text):
        kind().validate(actions, 3)


def test_actions_of_another_shape_are_refused():
    for wrong in (np.zeros((2, 2)), np.zeros(3), np.zeros((3, 2), object), [["a", "b"]] * 3):
        with pytest.raises(ValueError, match=r"pass numbers of shape \(3, 2\) with the columns linear, angular"):
            VelocityActions().validate(wrong, 3)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (VelocityActions, {"linear_range": (0.1, 0.2)}),
        (VelocityActions, {"linear_range": (-1, 0)}),
        (VelocityActions, {"angular_range_deg": (10, -10)}),
        (VelocityActions, {"angular_range_deg": 30}),
        (VelocityActions, {"time_step": 0}),
        (VelocityActions, {"min_linear": -1}),
        (WaypointActions, {"max_angle_deg": 181}),
        (WaypointActions, {"max_distance": 0}),
        (HolonomicActions, {"max_side": np.inf}),
    ],
)
def test_limits_are_checked(kind, wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
        kind(**wrong)


@pytest.mark.parametrize(
    ("kind", "keywords", "named"),
    [
        (VelocityActions, {"min_linear": 0}, "min_linear=0: motions below it mean STOP"),
        (VelocityActions, {"min_angular_deg": 0.0}, "min_angular_deg=0.0: "),
        (VelocityActions, {"linear_range": (-1, 0.02)}, r"min_linear=0\.025: .*motion is 0\.02: .*below 0\.0190476"),
        (VelocityActions, {"angular_range_deg": (-0.5, 0.9)}, r"min_angular_deg=1\.0: "),
        (VelocityActions, {"min_linear": "slow"}, "min_linear='slow': "),
        (WaypointActions, {"max_distance": 0.1}, r"min_distance=0\.1: "),
        (WaypointActions, {"max_angle_deg": 5}, r"min_angle_deg=9\.0: "),
        (WaypointActions, {"min_angle_deg": 0}, "min_angle_deg=0: "),
        (HolonomicActions, {"max_side": 0.02, "max_forward": 0.01}, r"min_move=0\.025: "),
        (HolonomicActions, {"max_forward": 0.01, "max_side": 0.25}, r"min_move=0\.025: "),
        (HolonomicActions, {"min_move": 0}, "min_move=0: "),
        (HolonomicActions, {"max_turn_deg": 1}, r"min_turn_deg=1\.0: "),
    ],
)
def test_agents_can_both_move_and_call_stop(kind, keywords, named):
    """Unless STOP has its own component, thresholds of 0 make it unreachable, and high ones the motion."""
    with pytest.raises(ValueError, match=named):
        kind(**keywords)
    if "slow" not in keywords.values():
        kind(**keywords, stop_component=True)
    HolonomicActions(max_side=0.02)  # agents can walk ahead


@pytest.mark.parametrize("name", KINDS)
def test_a_batch_keeps_the_rules(name):
    """Spaces, autoreset, seeding, independence of the environments."""
    keywords = {"sensors": (PreviousAction(),), "max_episode_steps": 9, "autoreset_mode": "same_step", "episodes": 5}
    check_vector_env(lambda: BatchNavEnv(3, actions=name, scenes="apartment_4", **keywords), steps=30)


def test_the_previous_action_is_the_action(opened):
    env = opened(BatchNavEnv(3, actions="holonomic", sensors=(PreviousAction(),), scenes="apartment_4", episodes=5))
    observation, _ = env.reset(seed=0)
    env.action_space.seed(1)
    space = env.single_action_space
    assert env.single_observation_space["previous_action"] == space
    assert not observation["previous_action"].any() and observation["previous_action"].shape == (3, *space.shape)
    actions = env.action_space.sample()
    np.testing.assert_array_equal(env.step(actions)[0]["previous_action"], actions)
    state = env.get_state()
    env.step(env.action_space.sample())
    np.testing.assert_array_equal(env.set_state(state)["previous_action"], actions)
