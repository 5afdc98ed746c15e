"""Ctrl+C and the signals of schedulers."""

import signal
import subprocess
import sys

import pytest

from gym_batchnav.cli.interruption import Interruption, RememberedInterrupt


def test_signals_are_given_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruption() as interruption:
        assert not interruption.requested
        signal.raise_signal(signal.SIGTERM)
        assert interruption.requested
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_second_signal_ends_the_process_at_once():
    program = (
        "import os, signal\nfrom gym_batchnav.cli.interruption import Interruption\n"
        "with Interruption():\n    signal.raise_signal(signal.SIGINT)\n    print('on', flush=True)\n"
        "    try:\n        signal.raise_signal(signal.SIGINT)\n    finally:\n        print('cleaned')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "on\n")


@pytest.fixture
def default_handler():
    """Ctrl+C as in a terminal, since programs in the background of a shell ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_is_raised_and_remembered(default_handler):
    with RememberedInterrupt() as interrupt:
        assert not interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert interrupt.requested
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_a_destructor_loses_is_remembered(default_handler):
    class Compiler:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    with RememberedInterrupt() as interrupt:
        Compiler()  # Python deletes it at once
        assert interrupt.requested


def test_an_ignored_interrupt_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with RememberedInterrupt() as interrupt:
            signal.raise_signal(signal.SIGINT)
            assert not interrupt.requested
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
