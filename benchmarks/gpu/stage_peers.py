"""Stage peers: this package and other installed simulators in the same run, at 64 x 64 RGB."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from figures import Report, named_scenes, open_batches, rate
from stage_step import measure

sys.path.insert(0, str(Path(__file__).parents[1]))
PEERS = ("miniworld", "vizdoom", "pybullet")  # workers of benchmarks/peers.py
TOO_LARGE = "mujoco-warp needs warp-lang, whose wheel is 142 MiB; the kit is limited to 40 MiB"


def theirs(report: Report, name: str, own: float) -> None:
    """Report frames/s of one process of another simulator."""
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
    for scene, name in named_scenes():
        with report.part(f"ours, {name}"), open_batches(scene, num_envs, 1, "opengl", sensors=("rgb",)) as envs:
            own[name] = measure(report, f"ours, RGB 64x64, {name}", envs, None)
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
