"""Stage tests: pytest -m gpu with a long stress, the OpenGL and agreement tests, and agreement in figures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from figures import DATA, Report, device, save_sheet, why_no_cuda

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
STRESS_STEPS = 100_000
STRESS = "test_many_steps_keep_every_picture_whole"
SANITIZED = "test_two_batches_under_way_are_read_in_order"
SHOWN = 12  # pictures of a row


def pytest(
    report: Report, what: str, *arguments: str, prefix: tuple[str, ...] = (), limit: float, **variables: str
) -> None:
    """Run tests and write how many passed; those that failed by name."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "results.xml"
        command = [*prefix, sys.executable, "-m", "pytest", "-q", "--color=no", f"--junitxml={file}", *arguments]
        start = time.perf_counter()
        try:
            subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, timeout=limit)
        except subprocess.TimeoutExpired:
            report.figure(what, None, note=f"cut off after {limit:.0f} s")
            report.failed = True
            return
        seconds = time.perf_counter() - start
        cases = list(ElementTree.parse(file).iter("testcase")) if file.is_file() else []
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    passed = len(cases) - len(failed) - len(skipped)
    report.figure(what, passed, "passed", note=f"{len(failed)} failed, {len(skipped)} skipped, {seconds:.0f} s")
    report.figure(f"{what}: failures", len(failed), bar=0, at_most=True)
    for case in failed:
        reason = next((one.get("message", "") for one in case if one.tag in ("failure", "error")), "")
        report.figure(f"failed: {case.get('name', '')[:48]}", None, note=" ".join(reason.split())[:300])


def agreement(report: Report) -> None:
    """How far the renderers agree in every shared scene, and pictures of both."""
    sys.path[:0] = [str(TESTS), str(TESTS / "render")]
    import test_agreement as agreed

    from gym_batchnav.geometry import Camera

    count, camera, rows = (8 if report.small else 128), Camera(), []
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
    """The figures of the tests of agreement, over all views of a folder."""
    depth, truth = opengl["depth"] * camera.max_depth, embree["depth"] * camera.max_depth
    near = (np.abs(depth - truth) <= np.maximum(0.01, 0.01 * truth)).mean()
    note = f"{len(depth)} views"
    report.figure(f"agreement, {name}, depth", 100 * float(near), "%", bar=99.9, note=note)
    same = (opengl["semantic"] == embree["semantic"]).mean()
    report.figure(f"agreement, {name}, semantic", 100 * float(same), "%", bar=99.9, note=note)
    difference = np.abs(opengl["rgb"].astype(int) - embree["rgb"]).mean()
    report.figure(f"agreement, {name}, RGB", float(difference), "of 255", bar=0.5, at_most=True, note=note)


def main() -> None:
    report = Report("tests")
    small = report.small
    on_gpu = device() == "cuda"
    if on_gpu:
        steps = str(1000 if small else STRESS_STEPS)
        own = ("-n", "0", "-m", "gpu", "tests/render/opengl/test_gpu.py")
        variables = {"GYM_BATCHNAV_STRESS_STEPS": steps, "GYM_BATCHNAV_REQUIRE": "gpu"}
        pytest(report, f"pytest -m gpu, {int(steps):,} batches of stress", *own, limit=110, **variables)
    else:
        report.figure("pytest -m gpu", None, note=f"left out: {why_no_cuda()}")
    with report.part("agreement"):
        agreement(report)
    chosen = (
        ("tests/render/opengl/test_devices.py", "tests/render/opengl/test_context.py") if small else ("tests/render",)
    )
    processes = str(max(min((os.cpu_count() or 1) // 4, 4), 0) if not small else 0)
    selected = ("-m", "opengl and not slow and not gpu", "-n", processes, *chosen)
    pytest(report, "OpenGL and agreement tests", *selected, limit=120)
    if on_gpu and shutil.which("compute-sanitizer"):
        tool = ("compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "3")
        test = ("-n", "0", "-m", "gpu", "tests/render/opengl/test_gpu.py", "-k", SANITIZED)
        pytest(report, "under compute-sanitizer", *test, prefix=tool, limit=40, GYM_BATCHNAV_REQUIRE="gpu")
    report.end()


if __name__ == "__main__":
    main()
