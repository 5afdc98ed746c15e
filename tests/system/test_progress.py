"""The bar and the lines that only long work shows."""

import io
import re
import threading
import time

import pytest
import rich.console

from gym_batchnav.system import progress

LONGEST = 60.0  # seconds until a busy machine has shown something


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress, "INTERVAL", 0.05)


@pytest.fixture
def screen(monkeypatch):
    screen = io.StringIO()
    make = rich.console.Console
    monkeypatch.setattr(rich.console, "Console", lambda **_: make(file=screen, force_terminal=True, width=80))
    return screen


@pytest.fixture
def said(capsys):
    """A function that waits for a line on standard error of a form and returns all lines until then; none if late."""
    texts = []  # print writes a line and its end one after the other

    def lines():
        texts.append(capsys.readouterr().err)
        return "".join(texts).splitlines()

    def said(form):
        return lines() if soon(lambda: any(matches(form, line) for line in lines())) else []

    return said


def matches(form, line):
    return re.fullmatch(form, line) is not None


def soon(shown):
    """Return whether something is shown within the time that a busy machine may take."""
    ended = time.monotonic() + LONGEST
    while time.monotonic() < ended:
        if shown():
            return True
        time.sleep(0.01)
    return False


def test_long_work_shows_a_bar_on_a_terminal(quick, screen):
    with progress.late_progress("Loading scenes", 4) as done:
        done()
        assert soon(lambda: "Loading scenes" in screen.getvalue() and "1/4" in screen.getvalue())


def test_long_work_writes_lines_into_a_log(quick, said, capsys):
    with progress.late_progress("Loading scenes", 4) as done:
        done()
        assert said(r"Loading scenes: 1 of 4 after \d+ s")
        done(2)
        lines = said(r"Loading scenes: 3 of 4 after \d+ s")
    assert lines and all(matches(r"Loading scenes: [013] of 4 after \d+ s", line) for line in lines)
    assert capsys.readouterr().out == "" and "progress" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.filterwarnings("error")
def test_a_notebook_without_widgets_is_given_lines(quick, said, monkeypatch):
    make = rich.console.Console
    monkeypatch.setattr(rich.console, "Console", lambda **_: make(force_jupyter=True))
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    with progress.late_progress("Loading scenes", 4) as done:
        done()
        assert said(r"Loading scenes: 1 of 4 after \d+ s")


@pytest.mark.parametrize("terminal", [True, False])
def test_short_work_shows_nothing_even_if_it_fails(terminal, request, monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", LONGEST)
    screen = request.getfixturevalue("screen") if terminal else None
    with pytest.raises(KeyError), progress.late_progress("Loading scenes", 4) as done:
        done()
        raise KeyError
    assert "progress" not in {thread.name for thread in threading.enumerate()}  # so nothing can follow
    assert capsys.readouterr().err == "" and (screen is None or screen.getvalue() == "")


def test_pieces_done_by_many_threads_are_all_counted(quick, said):
    with progress.late_progress("Preparing", 8000) as done:
        threads = [threading.Thread(target=lambda: [done() for _ in range(1000)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert said(r"Preparing: 8,000 of 8,000 after \d+ s")


def test_lines_tell_the_stage_that_was_reported_last(quick, said):
    progress.report_stage("attic: roof")  # before, so it belongs to other work
    with progress.late_progress("Reading", total=2) as done:
        done()
        thread = threading.Thread(target=progress.report_stage, args=("attic: textures",))
        thread.start()
        thread.join()
        assert said(r"Reading: 1 of 2 after \d+ s \(attic: textures\)")
        done()  # a piece after the stage, which is over
        assert said(r"Reading: 2 of 2 after \d+ s")
    with progress.late_progress("Waiting", total=1):
        lines = said(r"Waiting: 0 of 1 after \d+ s")
    assert lines and "roof" not in "".join(lines)
