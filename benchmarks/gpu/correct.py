"""Stage correct: what the machine has, pytest -m gpu with a long stress test, and the tests of the renderers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from kit import Report

from gym_batchnav.doctor import diagnose
from gym_batchnav.system.process import num_processors

ROOT = Path(__file__).parents[2]
ON_GPU = ("-n", "0", "-m", "gpu", "tests/render/warp/test_gpu.py")
STRESS = "test_many_steps_keep_every_picture_whole"
STRESS_STEPS = 100_000


def machine(report: Report) -> str:
    """Report the diagnosis of the machine; return why observations cannot stay on a GPU, "" if they can."""
    found = diagnose()
    report.figure("renderer='auto'", found.renderer, note=found.reason)
    for line in found.advice:
        report.figure("advice", "", note=line)
    for name, version in found.versions.items():
        report.figure(f"version of {name}", version or "none")
    report.figure("Embree", found.embree or "none", note=found.embree_error)
    report.figure("threads of Numba", found.threads["numba"], note=f"{found.threads['cores']} cores")
    return found.cuda_error


def start_tests(*arguments: str, **variables: str) -> subprocess.Popen[bytes]:
    """Start pytest, which writes to the output of this process."""
    command = [sys.executable, "-m", "pytest", "-q", "--color=no", "-rf", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **variables})


def finish_tests(report: Report, what: str, tests: subprocess.Popen[bytes]) -> None:
    """Report the exit status of pytest: 0 if all tests have passed."""
    start = time.perf_counter()
    status = tests.wait()
    report.figure(f"{what}, status", status, bar=0, at_most=True, note=f"waited {time.perf_counter() - start:.0f} s")


def main() -> None:
    report = Report("correct")
    no_gpu = "unknown"
    with report.part("machine"):
        no_gpu = machine(report)
    stress = None
    if no_gpu:
        report.figure("pytest -m gpu", None, note=f"left out: {no_gpu}")
    else:
        steps = 1000 if report.small else STRESS_STEPS
        required = {"GYM_BATCHNAV_REQUIRE": "gpu", "GYM_BATCHNAV_STRESS_STEPS": str(steps)}
        # The longest test runs in parallel with all others, as nothing is timed here.
        stress = start_tests(*ON_GPU, "-k", STRESS, **required)
        finish_tests(report, "pytest -m gpu", start_tests(*ON_GPU, "-k", f"not {STRESS}", **required))
    processes = 0 if report.small else min(num_processors() // 4, 4)
    chosen = ("tests/render/opengl/test_context.py",) if report.small else ("tests/render",)
    common = ("-m", "not slow and not long and not gpu", "-n", str(processes))
    finish_tests(report, "tests of the renderers", start_tests(*common, *chosen))
    if stress is not None:
        finish_tests(report, "stress of many batches", stress)
    report.end()


if __name__ == "__main__":
    main()
