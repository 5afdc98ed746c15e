"""Stage cpu: Embree and navigation on 1, 2, 4, 8 and 16 threads, and the cost of RGB beside depth."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import numba
import numpy as np
from figures import APARTMENTS, Report, named_scenes

from gym_batchnav.bench import bench_step, drawing, interleaved, machine

BARS = {2: 1.85, 16: 12.0}  # lowest speed-up over one thread


def on_threads(count: int, draw: Callable[[], int]) -> int:
    """Draw with ``count`` threads."""
    numba.set_num_threads(count)
    return draw()


def rendering(report: Report, counts: list[int], scene: str, name: str, seconds: float) -> None:
    """Report frames/s of Embree by number of threads."""
    with drawing(scene, 256 if report.small else 1024, renderer="embree") as drawn:
        rates = interleaved({str(count): partial(on_threads, count, drawn.draw) for count in counts}, seconds)
    numba.set_num_threads(counts[-1])
    for count in counts:
        figure = float(np.median(rates[str(count)]))
        times = float(np.median(np.divide(rates[str(count)], rates["1"])))
        report.figure(f"Embree, depth, {name}, {count} threads", figure, "frames/s", note=f"{times:.2f} times one")
        if count in BARS:
            report.figure(f"Embree, {name}, {count} threads to one", times, "x", bar=BARS[count])


def colours(report: Report, scene: str, name: str, seconds: float) -> None:
    """Report frames/s of RGB with depth compared to depth alone, on all threads."""
    with ExitStack() as stack:
        works = {
            "+".join(sensors): stack.enter_context(drawing(scene, 256, sensors=sensors, renderer="embree")).draw
            for sensors in (("depth",), ("depth", "rgb"))
        }
        rates = interleaved(works, seconds)
    ratio = float(np.median(np.divide(rates["depth+rgb"], rates["depth"])))
    report.figure(f"Embree, depth and RGB, {name}", float(np.median(rates["depth+rgb"])), "frames/s")
    report.figure(f"Embree, depth and RGB to depth, {name}", ratio, "x", bar=0.75)


def navigation(report: Report, counts: list[int], seconds: float) -> None:
    """Report steps/s of agents without cameras by number of threads."""
    one = 0.0
    for count in counts:
        numba.set_num_threads(count)
        figures = bench_step(APARTMENTS, 256 if report.small else 16384, seconds, sensors=())
        one = one or figures["fps"]
        note = ", ".join(f"{part} {spent:.2f} ms" for part, spent in figures["parts"].items() if spent > 0.001)
        report.figure(
            f"navigation, {count} threads",
            figures["fps"],
            "steps/s",
            note=f"{figures['fps'] / one:.2f} times one; {note}",
        )
    numba.set_num_threads(counts[-1])


def main() -> None:
    report = Report("cpu")
    most = numba.config.NUMBA_NUM_THREADS
    counts = sorted({count for count in (1, 2, 4, 8, 16, most) if count <= most})
    seconds = 0.5 if report.small else 2.0
    report.figure("machine", machine())
    for scene, name in named_scenes():
        with report.part(f"threads, {name}"):
            rendering(report, counts, scene, name, seconds)
        with report.part(f"colours, {name}"):
            colours(report, scene, name, seconds)
    with report.part("navigation"):
        navigation(report, counts, seconds / 2)
    report.end()


if __name__ == "__main__":
    main()
