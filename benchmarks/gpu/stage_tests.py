"""Stage tests: pytest -m gpu with a long stress test, the OpenGL and agreement tests, and figures of agreement."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from figures import DATA, Report, cuda_unavailable_reason, device, save_sheet

from gym_batchnav.system.process import num_processors

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
STRESS_STEPS = 100_000
STRESS = "test_many_steps_keep_every_picture_whole"
SANITIZED = "test_two_batches_under_way_are_read_in_order"
ON_GPU = ("-n", "0", "-m", "gpu", "tests/render/opengl/test_gpu.py")
SHOWN = 12  # pictures in a row


class Tests:
    """A run of pytest in its own session.

    Args:
        what: Name of the run in the results.
        arguments: Arguments of pytest.
        prefix: A program that runs pytest, and its arguments.
        variables: Additional environment variables.
    """

    def __init__(self, what: str, *arguments: str, prefix: tuple[str, ...] = (), **variables: str) -> None:
        self.what = what
        self._folder = TemporaryDirectory()
        self._file = Path(self._folder.name) / "results.xml"
        command = [*prefix, sys.executable, "-m", "pytest", "-q", "--color=no", f"--junitxml={self._file}", *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **variables}, start_new_session=True)
        self._start = time.perf_counter()

    def finish(self, report: Report, limit: float) -> None:
        """Wait until ``limit`` seconds after the start, and report how many tests passed and which ones failed."""
        try:
            self._process.wait(max(limit - (time.perf_counter() - self._start), 1.0))
        except subprocess.TimeoutExpired:
            self.kill()
            report.failed = True
            report.figure(self.what, None, note=f"cut off after {limit:.0f} s")
            return
        seconds = time.perf_counter() - self._start
        cases = list(ElementTree.parse(self._file).iter("testcase")) if self._file.is_file() else []
        failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
        skipped = sum(case.find("skipped") is not None for case in cases)
        passed = len(cases) - len(failed) - skipped
        ended = f"{len(failed)} failed, {skipped} skipped, {seconds:.0f} s, status {self._process.returncode}"
        report.figure(self.what, passed, "passed", bar=1, note=ended)
        report.figure(f"{self.what}: failures", len(failed), bar=0, at_most=True)
        for case in failed:
            reason = next((one.get("message", "") for one in case if one.tag in ("failure", "error")), "")
            report.figure(f"failed: {case.get('name', '')[:48]}", None, note=" ".join(reason.split())[:300])

    def kill(self) -> None:
        """Kill pytest and its children if they are still running; idempotent."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def agreement(report: Report) -> None:
    """Report how well the renderers agree in every shared scene, and save pictures of both."""
    sys.path[:0] = [str(TESTS), str(TESTS / "render")]
    import test_agreement as agreed

    from gym_batchnav.geometry import Camera

    count = 8 if report.small else 64
    camera = Camera()
    rows = []
    folders = agreed.FOLDERS[:3] if report.small else agreed.FOLDERS
    for folder in folders:
        with report.part(f"agreement, {folder}"):
            scenes = agreed.shared_scenes(DATA / "scenes" / folder)
            views = np.concatenate([agreed.poses(scene, count) for scene in scenes])
            slots = np.repeat(np.arange(len(scenes)), count)
            opengl, embree = agreed.pictures(scenes, slots, views, camera)
            within_limits(report, folder, opengl, embree, camera)
            rows += [images["rgb"][:: max(len(views) // SHOWN, 1)][:SHOWN] for images in (opengl, embree)]
    if rows:
        save_sheet("agreement.png", rows)


def within_limits(report: Report, name: str, opengl: dict[str, Any], embree: dict[str, Any], camera: Any) -> None:
    """Report the agreement over all views of a folder."""
    depth = opengl["depth"] * camera.max_depth
    truth = embree["depth"] * camera.max_depth
    near = (np.abs(depth - truth) <= np.maximum(0.01, 0.01 * truth)).mean()
    note = f"{len(depth)} views"
    report.figure(f"agreement, {name}, depth", 100 * float(near), "%", bar=99.9, note=note)
    same = (opengl["semantic"] == embree["semantic"]).mean()
    report.figure(f"agreement, {name}, semantic", 100 * float(same), "%", bar=99.9, note=note)
    difference = np.abs(opengl["rgb"].astype(int) - embree["rgb"]).mean()
    report.figure(f"agreement, {name}, RGB", float(difference), "of 255", bar=0.5, at_most=True, note=note)


def main() -> None:
    report = Report("tests")
    with ExitStack() as stack:
        run_all(report, stack)
    report.end()


def run_all(report: Report, stack: ExitStack) -> None:
    """Run all tests; at the end, the stack kills those that are still running after an error."""
    stress = None
    if device() == "cuda":
        steps = 1000 if report.small else STRESS_STEPS
        required = {"GYM_BATCHNAV_REQUIRE": "gpu", "GYM_BATCHNAV_STRESS_STEPS": str(steps)}
        # The longest test runs in parallel with all others, as nothing is timed here.
        stress = Tests(f"{steps:,} batches of stress", *ON_GPU, "-k", STRESS, **required)
        stack.callback(stress.kill)
        Tests("pytest -m gpu", *ON_GPU, "-k", f"not {STRESS}", **required).finish(report, 80)
    else:
        report.figure("pytest -m gpu", None, note=f"left out: {cuda_unavailable_reason()}")
    with report.part("agreement"):
        agreement(report)
    few = tuple(f"tests/render/opengl/test_{name}.py" for name in ("devices", "context"))
    processes = 0 if report.small else min(num_processors() // 4, 4)
    chosen = (
        "-m",
        "opengl and not slow and not gpu",
        "-n",
        str(processes),
        *(few if report.small else ("tests/render",)),
    )
    Tests("OpenGL and agreement tests", *chosen).finish(report, 600 if report.small else 80)
    if stress is not None:
        stress.finish(report, 190)
        if shutil.which("compute-sanitizer"):
            tool = ("compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "3")
            Tests("under compute-sanitizer", *ON_GPU, "-k", SANITIZED, prefix=tool).finish(report, 40)


if __name__ == "__main__":
    main()
