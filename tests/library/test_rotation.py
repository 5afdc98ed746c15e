"""The pace of rotation: when loading needs more of the machine, and when users are told that it cannot keep up."""

import warnings

import pytest

from gym_batchnav.library.rotation import BEHIND, NICENESS, SETTLE_STEPS, SILENCE, WINDOW, RotationPace


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def change(pace: RotationPace, clock: Clock, steps: int, seconds_per_step: float = 0.001) -> None:
    """One change of scene whose loading takes some steps."""
    pace.request()
    for step in range(steps):
        clock.now += seconds_per_step
        pace.step()
        if step >= pace.requested_steps:
            pace.late()
    pace.loaded()
    pace.changed()


def test_late_scenes_raise_the_priority_and_early_ones_lower_it() -> None:
    clock = Clock()
    pace = RotationPace(100, clock)
    begin = pace.niceness
    assert 0 < begin < 19
    change(pace, clock, 120)
    assert pace.niceness < begin
    change(pace, clock, 1000)  # far too late: the next one gets the share of any other program at once
    assert pace.niceness == 0
    for expected in NICENESS[-2::-1]:
        change(pace, clock, 30)
        assert pace.niceness == expected
    assert pace.niceness == 19


def test_stats_tell_the_steps_per_change() -> None:
    clock = Clock()
    pace = RotationPace(100, clock)
    assert pace.steps_per_change is None and not pace.behind
    for _ in range(3):
        change(pace, clock, 100)
    assert pace.steps_per_change == 100 and not pace.behind
    for _ in range(1000):
        pace.step()
        pace.late()
    assert pace.steps_per_change == 1000 > BEHIND * pace.requested_steps and pace.behind
    assert RotationPace(1).requested_steps == SETTLE_STEPS + 1


def test_there_is_one_warning_in_a_while_if_loading_cannot_keep_up() -> None:
    clock = Clock()
    pace = RotationPace(50, clock)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(500):
            change(pace, clock, 150, 0.01)  # three times the steps asked for
    with pytest.warns(
        UserWarning, match=r"every 3,\d\d\d steps.*every 50 as requested.*scene prepare.*rotate_every"
    ) as told:
        for _ in range(40):
            change(pace, clock, 3000, 0.001)
    assert len(told) == 1 and pace.behind and clock.now > WINDOW
    with pytest.warns(UserWarning, match="cannot keep up"):
        for _ in range(40):
            change(pace, clock, 3000, SILENCE / 3000 / 30)


def test_agents_that_stay_in_their_scenes_are_no_reason_to_warn() -> None:
    clock = Clock()
    pace = RotationPace(50, clock)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(100_000):  # no slot becomes free, so nothing is late
            clock.now += 0.01
            pace.step()
    assert not pace.behind and pace.niceness > 0
