import numpy as np

from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.task.state import agent_state, episode_state


def state_of(**arrays):
    episodes = episode_state(len(next(iter(arrays.values()))))
    for name, values in arrays.items():
        getattr(episodes, name)[:] = values
    return episodes


def test_reward_is_slack_plus_progress_plus_bonus():
    episodes = state_of(previous_distance=[3, 0.3, 0.3], distance=[2.75, 0.1, 0.3], stopped=[False, True, True])
    measures = PointNav().measure(episodes, 500)
    np.testing.assert_allclose(PointNav().reward(measures), [0.24, -0.01 + 0.2 + 2.5, -0.01], atol=1e-6)


def test_the_papers_last_step_pays_spl_and_no_progress():
    episodes = state_of(
        previous_distance=[3, 0.1, 0.1, 0.1],
        distance=[2.75, 0.1, 0.1, 0.1],
        start_distance=[4, 4, 4, 4],
        path_length=[1, 8, 4, 4],
        num_steps=[1, 9, 9, 500],
        stopped=[False, True, True, False],
    )
    task = PointNav.seed_paper()
    reward = task.reward(task.measure(episodes, 500))
    # Under way: progress. Success at twice the length, success at the length, time-out on the goal: no success.
    np.testing.assert_allclose(reward, [0.24, -0.01 + 1.25, -0.01 + 2.5, -0.01], atol=1e-6)


def test_stop_terminates_and_the_limit_truncates_never_both():
    episodes = state_of(stopped=[True, False, True, False], num_steps=[3, 500, 500, 499], distance=[0, 0, 0, 0])
    terminated, truncated = PointNav().ended(PointNav().measure(episodes, 500))
    np.testing.assert_array_equal(terminated, [True, False, True, False])
    np.testing.assert_array_equal(truncated, [False, True, False, False])


def test_standing_on_the_goal_at_the_time_limit_is_failure():
    episodes = state_of(stopped=[False], num_steps=[500], distance=[0.0], start_distance=[2.0])
    measures = PointNav().measure(episodes, 500)
    assert not measures.success[0] and measures.spl[0] == 0 and measures.timed_out[0]


def test_observation_is_polar_goal():
    agents, episodes = agent_state(1), episode_state(1)
    episodes.goal[0] = [-2, 0, 0]
    observed = PointNav().observe(agents, episodes)["pointgoal_with_gps_compass"]
    np.testing.assert_allclose(observed, [[2, np.pi / 2]], atol=1e-6)
    assert PointNav().observation_spaces()["pointgoal_with_gps_compass"].contains(observed[0])


def test_the_papers_time_out_pays_no_progress():
    episodes = state_of(previous_distance=[3], distance=[2.75], start_distance=[4], num_steps=[500])
    task = PointNav.seed_paper()
    np.testing.assert_allclose(task.reward(task.measure(episodes, 500)), [-0.01], atol=1e-6)
