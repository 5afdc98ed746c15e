"""Warnings name the line that caused them."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from gym_batchnav.system import notices
from gym_batchnav.system.notices import warn_user


def test_a_warning_names_the_line_outside_of_the_package():
    with pytest.warns(UserWarning, match="as expected") as caught:
        warn_user("as expected")
    assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", ["thread", "pool"])
def test_a_warning_in_a_thread_of_the_package_names_the_line_that_warned(monkeypatch, kind):
    monkeypatch.setattr(notices, "_PACKAGE", __file__)  # this file counts as a part of the package

    def work():
        warn_user("as expected")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if kind == "thread":
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        else:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(work).result()
    assert caught[0].filename == __file__ and str(caught[0].message) == "as expected"
