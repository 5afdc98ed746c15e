"""Work that is kept within a share of the time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.viz.window.pace import Pace


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@given(st.lists(st.floats(1e-4, 2.0), min_size=2, max_size=30), st.floats(0.001, 1.0), st.floats(0.0, 0.5))
def test_work_takes_at_most_its_share(durations, share, period):
    clock = Clock()
    pace = Pace(share, period, clock)
    worked = 0.0
    begun = clock.now
    for duration in durations:
        clock.now += pace.wait
        with pace.work():
            clock.now += duration
        worked += duration
    clock.now += pace.wait
    assert worked <= share * (clock.now - begun) * (1 + 1e-9)
    assert clock.now - begun >= period * len(durations) - 1e-9


def test_the_first_work_is_due_at_once_and_an_error_counts_as_work():
    clock = Clock()
    pace = Pace(0.1, clock=clock)
    assert pace.wait == 0
    with pytest.raises(RuntimeError), pace.work():
        clock.now += 1.0
        raise RuntimeError
    assert pace.wait == pytest.approx(9.0)
