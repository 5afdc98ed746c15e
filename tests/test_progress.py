"""The bar that only long work shows."""

import io
import time

import pytest
import rich.console

from gym_batchnav import progress


@pytest.fixture
def screen(monkeypatch):
    screen = io.StringIO()
    make = rich.console.Console
    monkeypatch.setattr(rich.console, "Console", lambda **_: make(file=screen, force_terminal=True, width=80))
    monkeypatch.setattr(progress, "PATIENCE", 0.2)
    return screen


def test_long_work_shows_how_far_it_is(screen):
    with progress.late_progress("Loading scenes", 4) as done:
        done()
        time.sleep(0.8)
        done()
        time.sleep(0.3)
    assert "Loading scenes" in screen.getvalue() and "25%" in screen.getvalue()


def test_short_work_shows_nothing_even_if_it_fails(screen):
    with pytest.raises(KeyError), progress.late_progress("Loading scenes", 4) as done:
        done()
        raise KeyError
    time.sleep(0.4)
    assert screen.getvalue() == ""
