"""Self-play and ratings."""

import numpy as np
import pytest

from gym_batchnav.env.ids import make_batch
from gym_batchnav.evaluation.loop import EpisodeLoop
from gym_batchnav.worlds.selfplay import SelfPlay, ratings


def turns_left(observation):
    return np.full(len(observation["players"]), 2)


def turns_right(observation):
    return np.full(len(observation["players"]), 3)


@pytest.fixture
def envs(opened):
    keywords = {"scenes": "apartment_0", "sensors": (), "autoreset_mode": "same_step", "max_episode_steps": 6}
    return opened(make_batch("Tag", 12, **keywords))


def test_learners_are_a_batch_of_their_own(envs):
    play = SelfPlay(envs, [False, True], [turns_left, turns_right])
    observation, info = play.reset(seed=0)
    assert play.num_envs == 6 and observation["players"].shape == (6, 1, 3)
    assert play.observation_space.contains(observation) and info["waiting"].shape == (6,)
    heading = envs.agents.heading.copy()
    observation, reward, *_ = play.step(np.zeros(6, int))
    turned = (envs.agents.heading - heading + np.pi) % (2 * np.pi) - np.pi
    np.testing.assert_allclose(np.degrees(turned[1::2]), 0, atol=1e-4)
    np.testing.assert_allclose(np.degrees(turned[0::2]), [10, -10] * 3, atol=1e-3)
    assert reward.shape == (6,)
    for _ in range(5):
        _, _, terminated, truncated, info = play.step(np.zeros(6, int))
    assert truncated.all() and not terminated.any()
    assert info["final_obs"]["players"].shape == (6, 1, 3)
    np.testing.assert_array_equal(info["final_info"]["caught"], False)


def test_seeds_and_options_are_those_of_the_learners(envs):
    play = SelfPlay(envs, [False, True], [turns_left])
    play.reset(seed=[7, None, 9, 10, 11, 12])
    assert envs.episodes.seed[[0, 1, 4, 5, 10, 11]].tolist() == [7, 7, 9, 9, 12, 12]
    play.reset(seed=np.arange(6))
    assert envs.episodes.seed[::2].tolist() == [0, 1, 2, 3, 4, 5]
    play.reset(seed=3)
    assert envs.episodes.seed.tolist() == list(range(3, 15))
    play.reset(seed=0, options={"episode_index": np.arange(6)})
    assert envs.episodes.episode[::2].tolist() == list(range(6))
    count = envs.episodes.count.copy()
    mask = np.arange(6) == 2
    play.reset(options={"reset_mask": mask})
    assert (envs.episodes.count - count).tolist() == np.repeat(mask, 2).tolist()
    with pytest.raises(ValueError, match=r"reset_mask has shape \(12,\): pass a value for each of 6 learners"):
        play.reset(options={"reset_mask": np.ones(12, bool)})


def test_wrong_arguments_are_refused(envs):
    for learners, opponents, message in (
        ([True], [turns_left], "each of the 2 agents"),
        ([True, True], [turns_left], "some of them True and some False"),
        ([True, False], [], "opponents="),
    ):
        with pytest.raises(ValueError, match=message):
            SelfPlay(envs, learners, opponents)


def test_wrong_actions_are_refused(envs):
    play = SelfPlay(envs, [False, True], [turns_left])
    play.reset(seed=0)
    for wrong in (np.full(6, 1.5), 2, np.zeros(12, int)):
        with pytest.raises(ValueError, match=r"actions are .*: pass int64 \(6,\)"):
            play.step(wrong)
    with pytest.raises(ValueError, match="shows 6 of 12 agents: pass the batch itself"):
        EpisodeLoop(play, turns_left)
    play = SelfPlay(envs, [False, True], [lambda seen: [1.5] * len(seen["players"])])
    play.reset(seed=0)
    with pytest.raises(ValueError, match="actions are float64"):
        play.step(np.zeros(6, int))


def test_ratings_are_those_that_made_the_results():
    truth = np.array([-300.0, -100.0, 50.0, 350.0])
    chance = 1 / (1 + 10 ** ((truth[None] - truth[:, None]) / 400))
    wins = 1e6 * chance
    np.fill_diagonal(wins, 0)
    np.testing.assert_allclose(ratings(wins), truth, atol=0.5)


def test_who_won_all_games_has_a_finite_rating():
    found = ratings(np.array([[0, 20, 20], [0, 0, 10], [0, 10, 0]]))
    assert np.isfinite(found).all() and found[0] > 300 and found[1] == pytest.approx(found[2])
    for wrong in (np.zeros((2, 3)), np.array([[0, -1], [1, 0]]), np.array([[0, np.nan], [1, 0]])):
        with pytest.raises(ValueError, match="square matrix"):
            ratings(wrong)
