"""Discrete actions: their motion, looking up and down, and what is refused."""

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from gym_batchnav import BatchNavEnv
from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.state import Action

BLIND = {"scenes": "apartment_4", "sensors": (), "episodes": 5}


def test_each_action_commands_its_motion():
    commands = DiscreteActions(0.3, 20, 40).decode(np.arange(6))
    np.testing.assert_allclose(np.degrees(commands.turn), [0, 0, 20, -20, 0, 0])
    np.testing.assert_allclose(commands.forward, [0, 0.3, 0, 0, 0, 0])
    np.testing.assert_allclose(np.degrees(commands.look), [0, 0, 0, 0, 40, -40])
    assert not commands.side.any() and commands.stop.tolist() == [True] + 5 * [False]
    assert DiscreteActions().space == Discrete(4) and DiscreteActions(look_angle_deg=30).space == Discrete(6)
    assert DiscreteActions().decode(np.arange(4)).look is None


def test_looking_tilts_within_ninety_degrees_and_moves_nothing(opened):
    env = opened(BatchNavEnv(3, actions=DiscreteActions(look_angle_deg=40), autoreset_mode="same_step", **BLIND))
    env.reset(seed=0)
    before = [array.copy() for array in (env.agents.position, env.agents.heading)]
    up = [Action.LOOK_UP, Action.LOOK_DOWN, Action.TURN_LEFT]
    seen = []
    for _ in range(3):
        env.step(np.array(up))
        seen.append(np.degrees(env.agents.pitch))
    np.testing.assert_allclose(seen, [[40, -40, 0], [80, -80, 0], [90, -90, 0]], rtol=1e-6)
    np.testing.assert_array_equal(env.agents.position, before[0])
    np.testing.assert_array_equal(env.agents.heading[:2], before[1][:2])
    assert env.episodes.path_length[:2].tolist() == [0, 0] and env.episodes.num_steps.tolist() == [3, 3, 3]
    env.step(np.array([Action.STOP, Action.LOOK_UP, Action.LOOK_UP]))
    np.testing.assert_allclose(np.degrees(env.agents.pitch), [0, -50, 40], atol=1e-4)  # a new episode looks ahead
    state = env.get_state()
    with env.paused(np.array([True, False, True])):
        env.step(np.full(3, Action.LOOK_UP))
    np.testing.assert_allclose(np.degrees(env.agents.pitch), [0, -10, 40], atol=1e-4)
    env.set_state(state)
    np.testing.assert_allclose(np.degrees(env.agents.pitch), [0, -50, 40], atol=1e-4)


@pytest.mark.parametrize(
    ("actions", "text"),
    [
        ([0, 1, 4], r"actions\[2\] = 4: choose 0 STOP, 1 MOVE_FORWARD, 2 TURN_LEFT or 3 TURN_RIGHT"),
        ([0, -1, 2], r"actions\[1\] = -1"),
        ([0.0, 1.0, 2.0], "actions are float64"),
        ([[0], [1], [2]], r"int64 \(3, 1\): pass integers \(3,\)"),
    ],
)
def test_actions_outside_the_space_are_refused(actions, text):
    with pytest.raises(ValueError, match=text):
        DiscreteActions().validate(np.array(actions), 3)
    with pytest.raises(ValueError, match=r"= 6: choose 0 STOP, .*, 4 LOOK_UP or 5 LOOK_DOWN"):
        DiscreteActions(look_angle_deg=30).validate(np.array([6]), 1)


def test_amounts_must_be_positive_and_actions_known():
    for wrong in ({"forward_step": 0}, {"turn_angle_deg": np.nan}, {"look_angle_deg": -30}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DiscreteActions(**wrong)
    for actions in ("fly", DiscreteActions, None):
        with pytest.raises(ValueError, match="'discrete', 'velocity', 'waypoint', 'holonomic'"):
            BatchNavEnv(2, actions=actions, **BLIND)
