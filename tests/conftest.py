"""Fixtures and the rules for what may be skipped.

``GYM_BATCHNAV_TEST_DATA`` says where the shared scenes and fixtures lie (default ``../shared``).
``GYM_BATCHNAV_REQUIRE=opengl,data,gpu`` turns skips for want of OpenGL, that data or an NVIDIA GPU into failures.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings

# Threads that wait for work sleep instead of spinning: test processes share the processors.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["GYM_BATCHNAV_RUNS"] = "off"  # figures of tests are not what `gym-batchnav tune` should learn from

# Busy machines are no failures. CI repeats the same examples, so that a failure there comes from the change under test;
# elsewhere new ones are tried.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("busy"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "busy")

REPOSITORY = Path(__file__).parents[1]
DATA = Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", REPOSITORY.parent / "shared"))
REQUIRED = set(filter(None, os.environ.get("GYM_BATCHNAV_REQUIRE", "").split(",")))

MAX_WORKERS = 4
WORKER_BYTES = 4 * 2**30  # main memory that a test process may need


@pytest.hookimpl(optionalhook=True)  # of xdist, which may be off
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Choose the number of test processes for ``-n auto``, which pyproject.toml asks for.

    Folders run in parallel. Single files and tests run in this process, where they start sooner.
    """
    if all(argument.split("::")[0].endswith(".py") for argument in config.args):
        return 0
    from gym_batchnav.system.process import num_processors

    workers = min(MAX_WORKERS, num_processors(), psutil.virtual_memory().available // WORKER_BYTES)
    return workers if workers > 1 else 0


@pytest.hookimpl(tryfirst=True)  # before xdist starts its workers
def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile kernels once, before parallel test processes start that would each compile the same ones."""
    if getattr(session.config.option, "numprocesses", None) and not session.config.option.collectonly:
        subprocess.run(
            [sys.executable, "-m", "gym_batchnav", "warmup"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=REPOSITORY / "tests",
        )


@cache
def why_no_opengl() -> str:
    """The reason why no OpenGL 4.3 context can be made here, empty if one can."""
    import moderngl

    try:
        moderngl.create_standalone_context(backend="egl", require=430).release()
    except Exception as error:
        return f"no OpenGL 4.3: {error}"
    return ""


@cache
def why_no_gpu() -> str:
    """The reason why observations cannot stay on an NVIDIA GPU here, empty if they can."""
    from gym_batchnav.render.api import check_device

    try:
        check_device("cuda", "opengl")
    except RuntimeError as error:
        return f"no NVIDIA GPU to draw on: {error}"
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, or fail where it has to."""
    reasons = {}
    if item.get_closest_marker("opengl"):
        reasons["opengl"] = why_no_opengl()
    if item.get_closest_marker("gpu"):
        reasons["gpu"] = why_no_gpu()
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
