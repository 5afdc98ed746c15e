"""Fixtures and the rules for what may be skipped.

``GYM_BATCHNAV_TEST_DATA`` says where the shared scenes and fixtures lie (default ``../shared``).
``GYM_BATCHNAV_REQUIRE=opengl,data,gpu`` turns skips for want of OpenGL, that data or an NVIDIA GPU into failures.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings

# Threads that wait for work sleep instead of spinning: test processes share the processors.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's; Numba's are not affected
os.environ.setdefault("GYM_BATCHNAV_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "scenes"))
os.environ["GYM_BATCHNAV_RUNS"] = "off"  # figures of tests are not what `gym-batchnav tune` should learn from

# A slow machine is not a failure. CI repeats the same examples on every run (`--hypothesis-profile=fixed`), so that a
# failure there comes from the change under test; `thorough` tries many new ones (`bash .ci/long properties`).
settings.register_profile("free", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", settings.get_profile("free"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("free"), max_examples=500)
settings.load_profile("free")

REPOSITORY = Path(__file__).parents[1]
DATA = Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", REPOSITORY.parent / "shared"))
REQUIRED = set(filter(None, os.environ.get("GYM_BATCHNAV_REQUIRE", "").split(",")))

FEW = 8  # files or tests, which one process runs
MAX_WORKERS = 4
WORKER_BYTES = 4 * 2**30  # main memory that a test process may need


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which CI learns what to repeat."""
    parser.addoption("--outcomes", type=Path, metavar="FILE", help="name failed and skipped tests in this JSON file")


def pytest_configure(config: pytest.Config) -> None:
    """Collect the outcomes in the process that hears of all tests."""
    if config.option.outcomes and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(config.option.outcomes))


class Outcomes:
    """Writes which tests failed, and why which were skipped. A module that was skipped or failed has one entry.

    Args:
        path: The JSON file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: dict[str, None] = {}
        self._skipped: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Note a phase of a test."""
        if report.failed:
            self._failed[report.nodeid] = None
        elif report.skipped and not hasattr(report, "wasxfail"):
            assert isinstance(report.longrepr, tuple)
            self._skipped[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")

    pytest_collectreport = pytest_runtest_logreport

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self._path.write_text(json.dumps({"failed": list(self._failed), "skipped": self._skipped}, indent=1))


@pytest.hookimpl(optionalhook=True)  # of xdist, which may be off
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Choose the number of test processes for ``-n auto``, which pyproject.toml asks for.

    Folders and long lists run in parallel. A few files and tests run in this process, where they start sooner.
    """
    if len(config.args) <= FEW and all(argument.split("::")[0].endswith(".py") for argument in config.args):
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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what collection makes out of garbage collections, each of which would search it all, and make them rarer."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


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
        check_device("cuda", "warp")
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


@pytest.fixture
def opened():
    """Return a function that closes the environment that it is given after the test, and returns it."""
    with ExitStack() as stack:
        yield lambda env: stack.enter_context(closing(env))


@pytest.fixture(scope="module")
def library():
    """A library of two rooms made by hand."""
    from rooms import box_room  # late: tests that need no scenes start quickly

    from gym_batchnav.library.library import SceneLibrary

    return SceneLibrary.from_scenes([box_room("first"), box_room("second", width=10, depth=7)])
