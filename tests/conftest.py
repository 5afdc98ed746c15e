"""Fixtures and the rules for what may be skipped.

``GYM_BATCHNAV_TEST_DATA`` says where the shared scenes and fixtures lie (default ``../shared``).
``GYM_BATCHNAV_REQUIRE=opengl,data`` turns skips for want of OpenGL or of that data into failures.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

# CI repeats the same examples, so that a failure there is due to the change at hand; elsewhere new ones are explored.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

REPOSITORY = Path(__file__).parents[1]
DATA = Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", REPOSITORY.parent / "shared"))
REQUIRED = set(filter(None, os.environ.get("GYM_BATCHNAV_REQUIRE", "").split(",")))


@cache
def why_no_opengl() -> str:
    """The reason why no OpenGL 4.3 context can be made here, empty if one can."""
    import moderngl

    try:
        moderngl.create_standalone_context(backend="egl", require=430).release()
    except Exception as error:
        return f"no OpenGL 4.3: {error}"
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, or fail where it has to."""
    reasons = {}
    if item.get_closest_marker("opengl"):
        reasons["opengl"] = why_no_opengl()
    if item.get_closest_marker("data") and not (DATA / "scenes").is_dir():
        reasons["data"] = f"no test data in {DATA} (set GYM_BATCHNAV_TEST_DATA)"
    for what, reason in reasons.items():
        if reason and what in REQUIRED:
            pytest.fail(f"required by GYM_BATCHNAV_REQUIRE: {reason}")
        elif reason:
            pytest.skip(reason)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of shared scenes and fixtures; tests that use it carry the mark ``data``."""
    return DATA


@pytest.fixture(scope="module")
def library():
    """A library of two rooms made by hand."""
    from rooms import box_room  # late: tests that need no scenes start quickly

    from gym_batchnav.library.library import SceneLibrary

    return SceneLibrary.from_scenes([box_room("first"), box_room("second", width=10, depth=7)])
