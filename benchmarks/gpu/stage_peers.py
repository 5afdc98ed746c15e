"""Stage peers: simulators that are installed beside this package, in the same run, at 64 x 64 RGB."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from figures import APARTMENTS, HOUSE, Report, rate
from stage_step import batches, measure

sys.path.insert(0, str(Path(__file__).parents[1]))
PEERS = ("miniworld", "vizdoom", "pybullet")  # as benchmarks/peers.py runs them
TOO_LARGE = "mujoco-warp needs warp-lang, whose wheel has 142 MiB; the kit may have 40"


def theirs(report: Report, name: str, own: float) -> None:
    """Frames/s of one process of another simulator."""
    import peers

    about, draw = peers.WORKERS[name]()

    def work() -> int:
        draw(64)
        return 64

    figure, _ = rate(work, 0.5 if report.small else 3.0)
    report.figure(f"{name}, one process", figure, "frames/s", note=f"ours is {own / figure:.1f} times as fast; {about}")


def main() -> None:
    report = Report("peers")
    num_envs = 16 if report.small else 4096
    own: dict[str, float] = {}
    scenes = [(APARTMENTS, "apartments"), *([(str(HOUSE), "house")] if HOUSE.is_file() else [])]
    for scene, name in scenes:
        with report.part(f"ours, {name}"):
            own[name] = measure(report, f"ours, RGB 64x64, {name}", batches(scene, num_envs, 1, ("rgb",)), None)
    for name in PEERS:
        if importlib.util.find_spec(name) is None:
            report.figure(name, None, note="not installed")
            continue
        with report.part(name):
            theirs(report, name, own["apartments"])
    report.figure("mujoco-warp", None, note=f"not compared: {TOO_LARGE}")
    report.end()


if __name__ == "__main__":
    main()
