"""Stage learn, only on request: train the preset gpu for LEARN seconds, then evaluate it in held-out homes.

The folder RUN keeps the training run (by default a folder in WORK). Another call with the same folder resumes it, so
that several calls of eight minutes add up to a long training.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from figures import OUT, Report, cuda_unavailable_reason, device

PRESETS = {"cuda": "gpu", "cpu": "cpu"}
SECONDS = 420.0
SMALL_SECONDS = 10.0
KEPT = ("policy.safetensors", "curve.png")
MEASURES = ("success", "spl")


def command(*arguments: str) -> dict[str, Any]:
    """Run a command of the package and return the figures in its last line of output."""
    call = [sys.executable, "-m", "gym_batchnav", *arguments, "--json"]
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def trained_for(run: Path) -> float:
    """Return the seconds of training of the run in a folder; 0 if there is none."""
    curve = run / "curve.jsonl"
    lines = curve.read_text().splitlines() if curve.is_file() else []
    return float(json.loads(lines[-1])["seconds"]) if lines else 0.0


def main() -> None:
    report = Report("learn")
    preset = PRESETS[device()]
    if device() == "cpu":
        report.figure("training on", "cpu", note=cuda_unavailable_reason())
        if not report.small:
            return
    run = Path(os.environ.get("RUN", OUT / "run"))
    seconds = float(os.environ.get("LEARN", SMALL_SECONDS if report.small else SECONDS))
    with report.part("training"):
        limit = str(round(trained_for(run) + seconds))
        figures = command("train", "--preset", preset, "--out", str(run), "--resume", "--time-limit", f"{limit}s")
        note = f"{figures['frames']:,} frames in {figures['seconds']:.0f} s in all"
        report.figure(f"preset {preset}, training", figures["fps"], "frames/s", note=note)
        for measure in MEASURES:
            report.figure(f"preset {preset}, {measure} in training", figures[measure], note="in the last minute")
        for name in KEPT:
            if (run / name).is_file():
                shutil.copyfile(run / name, OUT / name)
    with report.part("evaluation"):
        few = ("--episodes", "20") if report.small else ()
        figures = command("evaluate", "--policy", str(run / "policy.safetensors"), *few)
        for measure in MEASURES:
            low, high = figures[f"{measure}_interval"]
            note = (
                f"{low:.3f} to {high:.3f} in {figures['episodes']} episodes of {len(figures['scenes'])} held-out homes"
            )
            report.figure(f"preset {preset}, {measure} in held-out homes", figures[measure], note=note)
    report.end()


if __name__ == "__main__":
    main()
