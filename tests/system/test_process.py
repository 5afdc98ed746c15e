"""The number of processors, and claims of processes and threads."""

import os
import threading

import pytest

from gym_batchnav.system.process import Claim, num_processors


def test_processors_that_the_process_may_not_use_do_not_count(monkeypatch):
    monkeypatch.setattr("gym_batchnav.system.process.processor_quota", lambda: None)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 5, 7}, raising=False)
    assert num_processors() == 3
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert num_processors() == 64
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert num_processors() == 1


def in_thread(call, name: str) -> BaseException | None:
    """The error of a call in a thread of this name."""
    errors: list[BaseException | None] = [None]

    def run() -> None:
        try:
            call()
        except RuntimeError as error:
            errors[0] = error

    thread = threading.Thread(target=run, name=name)
    thread.start()
    thread.join()
    return errors[0]


def test_an_object_belongs_to_the_thread_that_uses_it_first():
    claim = Claim("this thing")
    claim.claim_thread("step")
    claim.claim_thread("step")
    error = in_thread(lambda: claim.claim_thread("step"), "other")
    for part in ("step in thread 'other'", "this thing belongs to thread 'MainThread'", "Make all calls from thread"):
        assert part in str(error)
    claim.claim_thread("step")


def test_an_object_made_here_may_be_used_by_one_other_thread():
    claim = Claim("this thing")
    ready = threading.Event()
    done = threading.Event()

    def use() -> None:
        claim.claim_thread("step")
        ready.set()
        done.wait(30)

    thread = threading.Thread(target=use, name="worker")
    thread.start()
    assert ready.wait(30)
    with pytest.raises(RuntimeError, match="thread 'worker'"):
        claim.claim_thread("step")
    done.set()
    thread.join()
    claim.claim_thread("step")  # the worker has ended
