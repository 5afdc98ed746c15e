"""The bar and the lines that only long work shows."""

import io
import threading
import time

import pytest
import rich.console

from gym_batchnav.system import progress


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.2)
    monkeypatch.setattr(progress, "INTERVAL", 0.2)


@pytest.fixture
def screen(monkeypatch, quick):
    screen = io.StringIO()
    make = rich.console.Console
    monkeypatch.setattr(rich.console, "Console", lambda **_: make(file=screen, force_terminal=True, width=80))
    return screen


def work(seconds=0.0):
    """Four pieces of work, the first of which is done at once."""
    with progress.late_progress("Loading scenes", 4) as done:
        done()
        time.sleep(seconds)
        done(2)
        time.sleep(seconds / 2)


def test_long_work_shows_a_bar_on_a_terminal(screen):
    work(0.8)
    assert "Loading scenes" in screen.getvalue() and "1/4" in screen.getvalue()


def test_long_work_writes_lines_into_a_log(quick, capsys):
    work(0.7)
    shown = capsys.readouterr()
    first, *others = shown.err.splitlines()
    assert first == "Loading scenes: 1 of 4 after 0 s"
    assert len(others) >= 3 and others[-1] == "Loading scenes: 3 of 4 after 1 s"
    assert shown.out == "" and "progress" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.filterwarnings("error")
def test_a_notebook_without_widgets_is_given_lines(quick, capsys, monkeypatch):
    make = rich.console.Console
    monkeypatch.setattr(rich.console, "Console", lambda **_: make(force_jupyter=True))
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    work(0.4)
    assert "Loading scenes: 1 of 4 after 0 s\n" in capsys.readouterr().err


@pytest.mark.parametrize("terminal", [True, False])
def test_short_work_shows_nothing_even_if_it_fails(terminal, request, quick, capsys):
    screen = request.getfixturevalue("screen") if terminal else None
    with pytest.raises(KeyError), progress.late_progress("Loading scenes", 4) as done:
        done()
        raise KeyError
    time.sleep(0.4)
    assert capsys.readouterr().err == "" and (screen is None or screen.getvalue() == "")


def test_pieces_done_by_many_threads_are_all_counted(quick, capsys):
    with progress.late_progress("Preparing", 8000) as done:
        threads = [threading.Thread(target=lambda: [done() for _ in range(1000)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(0.5)
    assert "Preparing: 8,000 of 8,000" in capsys.readouterr().err


def test_lines_tell_the_stage_that_was_reported_last(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    progress.report_stage("attic: roof")  # before, so it belongs to other work
    with progress.late_progress("Reading", total=2) as done:
        done()
        thread = threading.Thread(target=progress.report_stage, args=("attic: textures",))
        thread.start()
        thread.join()
        time.sleep(0.2)
    with progress.late_progress("Waiting", total=1):
        time.sleep(0.2)
    said = capsys.readouterr().err
    assert "Reading: 1 of 2 after 0 s (attic: textures)\n" in said
    assert "Waiting: 0 of 1 after 0 s\n" in said and "roof" not in said
