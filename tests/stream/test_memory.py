"""The memory of samples against lists, and the reservoir against its probability."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.stream.memory import SampleMemory

COLUMNS = {"number": ((), np.dtype(np.int64)), "pair": ((2,), np.dtype(np.float32))}


def memory_of(capacity, num_steps=1, reservoir=False, seed=0):
    return SampleMemory(COLUMNS, capacity, num_steps, reservoir, np.random.default_rng(seed))


def add(memory, numbers):
    """Add one sample per number; frame t of sample n holds n + t / 10 in ``pair``."""
    numbers = np.asarray(numbers)
    memory.begin(len(numbers))
    for step in range(memory.num_steps):
        memory.put(step, {"number": numbers})
        memory.put(step, {"pair": np.repeat(numbers[:, None] + step / 10, 2, 1).astype(np.float32)})
    memory.end(len(numbers))


@given(capacity=st.integers(1, 12), sizes=st.lists(st.integers(1, 12), min_size=1, max_size=10))
def test_a_replay_holds_the_newest_samples(capacity, sizes):
    memory = memory_of(capacity)
    newest = deque(maxlen=capacity)
    first = 0
    for size in (min(size, capacity) for size in sizes):
        add(memory, range(first, first + size))
        newest.extend(range(first, first + size))
        first += size
        assert len(memory) == len(newest)
        assert sorted(memory.draw(len(memory))["number"]) == sorted(newest)


@pytest.mark.parametrize("reservoir", [False, True])
def test_frames_of_a_sample_stay_together(reservoir):
    memory = memory_of(10, num_steps=3, reservoir=reservoir)
    for first in range(0, 70, 7):
        add(memory, range(first, first + 7))
        batch = memory.draw(5)
        assert batch["number"].shape == (5, 3) and batch["pair"].shape == (5, 3, 2)
        assert (batch["number"] == batch["number"][:, :1]).all()
        wanted = batch["number"] + np.arange(3) / 10
        assert np.allclose(batch["pair"], wanted[..., None], atol=1e-5)
        assert len(set(batch["number"][:, 0].tolist())) == 5  # without repetition


def test_a_reservoir_keeps_every_sample_with_the_same_probability():
    runs, total, capacity = 150, 60, 12
    kept = np.zeros(total)
    for seed in range(runs):
        memory = memory_of(capacity, reservoir=True, seed=seed)
        for first in range(0, total, 6):
            add(memory, range(first, first + 6))
        numbers = memory.draw(capacity)["number"]
        assert len(set(numbers.tolist())) == capacity
        kept[numbers] += 1
    chance = capacity / total
    deviation = np.sqrt(runs * chance * (1 - chance))
    # Two samples of one block that draw the same place replace each other, as they would one after the other.
    assert np.abs(kept - runs * chance).max() < 5 * deviation


def test_every_sample_is_drawn_equally_often():
    memory = memory_of(10)
    add(memory, range(10))
    counts = np.zeros(10)
    for _ in range(2000):
        counts[memory.draw(3)["number"]] += 1
    assert np.abs(counts - 600).max() < 5 * np.sqrt(2000 * 0.3 * 0.7)


def test_samples_under_way_are_not_drawn():
    memory = memory_of(8, num_steps=2)
    add(memory, range(4))
    memory.begin(4)
    memory.put(0, {"number": np.full(4, 99)})
    assert len(memory) == 4
    assert sorted(memory.draw(4)["number"][:, 0]) == [0, 1, 2, 3]


def test_a_memory_that_does_not_fit_is_refused_before_it_is_allocated():
    with pytest.raises(ValueError, match=r"capacity=1000000000000000: .* pass at most capacity=\d+"):
        memory_of(10**15)
