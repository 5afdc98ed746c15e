"""``gym-batchnav view``, run as a user types it."""

import signal
import subprocess
import sys
import urllib.request

import pytest
from commands import refusal

pytest.importorskip("viser", reason="needs the extra [view]")

PROGRAM = """
import signal, sys
from gym_batchnav.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # which programs in the background of a shell lack
sys.argv[0] = "gym-batchnav"
main()
"""
COMMAND = [sys.executable, "-c", PROGRAM, "view", "--no-browser", "--port", "0"]


@pytest.mark.slow
def test_it_serves_until_it_is_interrupted():
    with subprocess.Popen([*COMMAND, "apartment_4"], stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stderr.readline, "")
            url = next(line.split()[0] for line in lines if line.startswith("http"))
            with urllib.request.urlopen(url, timeout=300) as page:
                assert b"<html" in page.read().lower()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=300) == 0
        finally:
            process.kill()


LOST = """
import signal
from gym_batchnav.viz.window.page import Page

class Compiler:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def show(self, *_):
    Compiler()

Page.show = show
"""


@pytest.mark.slow
def test_it_ends_although_a_destructor_has_lost_the_interrupt():
    command = [sys.executable, "-c", LOST + PROGRAM, *COMMAND[3:], "apartment_4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr.endswith("Closed\n")
    assert "Exception ignored" in done.stderr


def test_errors_name_what_is_wrong():
    for arguments in (["castle"], ["--policy", "missing.safetensors"]):
        assert arguments[-1] in refusal("view", "--no-browser", "--port", 0, *arguments)
