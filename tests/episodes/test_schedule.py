import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.episodes.draws import keyed_uniform
from gym_batchnav.episodes.schedule import EpisodeSchedule


def test_keyed_numbers_are_uniform_and_uncorrelated_along_every_key():
    many = np.arange(100_000)
    for numbers in (
        keyed_uniform(many.astype(np.uint64), np.zeros(len(many), int), 0),
        keyed_uniform(np.full(len(many), 7, np.uint64), many, 0),
    ):
        assert numbers.min() >= 0 and numbers.max() < 1
        histogram = np.histogram(numbers, 20, (0, 1))[0]
        assert np.abs(histogram - 5000).max() < 350  # five standard deviations
        assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.02


def test_keyed_numbers_depend_on_each_key():
    seed = np.array([3], np.uint64)
    episode = np.array([5])
    base = keyed_uniform(seed, episode, 0)
    others = [keyed_uniform(seed + np.uint64(1), episode, 0), keyed_uniform(seed, episode + 1, 0)]
    assert all(base != other for other in [*others, keyed_uniform(seed, episode, 1)])


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_numbers_of_episodes_locate_their_rows(sizes):
    schedule = EpisodeSchedule(sizes)
    slot, row = schedule.locate(np.arange(schedule.total))
    np.testing.assert_array_equal(schedule.index(slot, row), np.arange(sum(sizes)))
    assert (row < np.array(sizes)[slot]).all()


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5), batches=st.lists(st.integers(1, 7), min_size=1))
def test_once_hands_out_every_episode_once(sizes, batches):
    schedule = EpisodeSchedule(sizes, "once")
    given_out = []
    for size in (*batches, *[4] * (sum(sizes) // 4 + 1)):
        env = np.arange(size)
        slot, row, found = schedule.draw(env, np.zeros(size, np.uint64), np.zeros(size, int))
        given_out += list(schedule.index(slot, row)[found])
    assert sorted(given_out) == list(range(sum(sizes)))


def test_once_takes_the_slots_in_turn():
    schedule = EpisodeSchedule([2, 3], "once")
    slot, row, found = schedule.draw(np.arange(6), np.zeros(6, np.uint64), np.zeros(6, int))
    assert list(zip(slot[found], row[found], strict=True)) == [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2)]
    assert not found[5]


def test_once_runs_chosen_episodes_in_their_order_and_resumes():
    schedule = EpisodeSchedule([2, 3], "once")
    schedule.restart("once", np.array([4, 0, 3]))
    first = schedule.draw(np.arange(2), np.zeros(2, np.uint64), np.zeros(2, int))
    resumed = EpisodeSchedule([2, 3])
    resumed.set_state(schedule.get_state())
    slot, row, found = resumed.draw(np.arange(2), np.zeros(2, np.uint64), np.ones(2, int))
    assert [*schedule.index(*first[:2]), *resumed.index(slot[found], row[found])] == [4, 0, 3]
    schedule.rewind()
    assert schedule.index(*schedule.draw(np.arange(1), np.zeros(1, np.uint64), np.zeros(1, int))[:2]) == [4]
    with pytest.raises(ValueError, match="there are 0 to 4"):
        schedule.set_state({"order": "once", "next": 0, "chosen": np.array([5])})


def test_a_draw_does_not_depend_on_who_else_draws():
    schedule = EpisodeSchedule([100])
    seed = np.arange(64, dtype=np.uint64)
    together = schedule.draw(np.arange(64), seed, np.full(64, 3))[1]
    alone = [schedule.draw(np.array([i]), seed[i : i + 1], np.array([3]))[1][0] for i in range(64)]
    np.testing.assert_array_equal(together, alone)


def test_environments_visit_all_slots_in_turn():
    schedule = EpisodeSchedule([5, 5, 5])
    slots = [schedule.draw(np.array([1]), np.zeros(1, np.uint64), np.array([count]))[0][0] for count in range(4)]
    assert slots == [1, 2, 0, 1]
