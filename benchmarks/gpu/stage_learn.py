"""Stage learn, only when it is asked for: trains the preset gpu for LEARN seconds, then evaluates in held-out homes.

The run is kept in the folder RUN (by default WORK's), and another call on the same machine resumes it: calls of eight
minutes add up to a training of any length.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from figures import OUT, Report, device, why_no_cuda

PRESETS = {"cuda": "gpu", "cpu": "cpu"}
SECONDS, SMALL_SECONDS = 420.0, 10.0
KEPT = ("policy.safetensors", "curve.png")
MEASURES = ("success", "spl")


def command(*arguments: str) -> dict[str, Any]:
    """The figures of a command of the package, from the last line that it prints."""
    call = [sys.executable, "-m", "gym_batchnav.cli", *arguments, "--json"]
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def trained_for(run: Path) -> float:
    """Seconds of training of the run that a folder holds, 0 if it holds none."""
    curve = run / "curve.jsonl"
    lines = curve.read_text().splitlines() if curve.is_file() else []
    return float(json.loads(lines[-1])["seconds"]) if lines else 0.0


def main() -> None:
    report = Report("learn")
    preset = PRESETS[device()]
    if device() == "cpu":
        report.figure("training on", "cpu", note=why_no_cuda())
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
