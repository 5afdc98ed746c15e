"""What the stages of the kit share: figures that are written as they are found, sizes, scenes, and a clock for GPUs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

OUT = Path(os.environ.get("OUT", "out/gpu"))
DATA = Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", "../shared"))
RESULTS = "results.jsonl"
APARTMENTS = "apartments"
HOUSE = DATA / "scenes" / "aws_small_house" / "aws_small_house.glb"
SYNC_EVERY = 8  # batches that may wait in the GPU's queue while frames are counted


def append(line: dict[str, Any]) -> None:
    """Add a line to the results, whole even if this process is killed after it."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / RESULTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, default=str) + "\n")


class Report:
    """The figures of one stage.

    Args:
        stage: Its name.

    Attributes:
        small: Whether sizes are to be small.
    """

    def __init__(self, stage: str) -> None:
        parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
        parser.add_argument("--small", action="store_true", help="few agents and short times")
        self.small: bool = parser.parse_args().small
        self.stage = stage
        self.failed = False

    def figure(
        self,
        what: str,
        value: Any,
        unit: str = "",
        bar: float | None = None,
        at_most: bool = False,
        note: str = "",
        **more: Any,
    ) -> None:
        """Write one figure; ``bar`` is the least that is wanted of it, or with ``at_most`` the most."""
        line = {"stage": self.stage, "what": what, "value": value, "unit": unit, "note": note, **more}
        if bar is not None:
            line |= {"bar": bar, "at_most": at_most, "met": bool(value <= bar if at_most else value >= bar)}
        append(line)
        print(row(line), flush=True)

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """A block whose error is written as its figure, so that the next one runs."""
        try:
            yield
        except Exception as error:
            self.failed = True
            traceback.print_exc()
            self.figure(what, None, note=f"failed: {type(error).__name__}: {str(error)[:300]}")

    def end(self) -> None:
        """Exit with 1 if a part failed."""
        sys.exit(1 if self.failed else 0)


def row(line: dict[str, Any]) -> str:
    """A figure as a line of the table."""
    value = line["value"]
    if isinstance(value, bool) or value is None:
        shown = {True: "yes", False: "NO", None: "-"}[value]
    elif isinstance(value, (int, float)):
        shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"
    else:
        shown = str(value)
    note = line["note"]
    if len(shown) > 14:  # a name, not a number
        shown, note = "", "; ".join(filter(None, (shown, note)))
    bar = f"{'<=' if line['at_most'] else '>='} {line['bar']:,g}" if "bar" in line else ""
    verdict = ("met" if line["met"] else "NOT MET") if "met" in line else ""
    text = f"{line['stage']:<8}{line['what']:<58}{shown:>14} {line['unit']:<9}{bar:<12}{verdict:<8}{note}"
    return text.rstrip()


@cache
def why_no_cuda() -> str:
    """Why observations cannot stay on a GPU here; ``""`` if they can."""
    from gym_batchnav.render.api import check_device

    try:
        check_device("cuda", "opengl")
    except RuntimeError as error:
        return str(error)
    return ""


def device() -> str:
    """``"cuda"`` where observations can stay on a GPU, else ``"cpu"``."""
    return "cpu" if why_no_cuda() else "cuda"


def wait() -> None:
    """Wait for the GPU to finish everything, OpenGL's work included, whose pictures CUDA has taken."""
    if device() == "cuda":
        import torch

        torch.cuda.synchronize()


def rate(work: Callable[[], int], seconds: float, slices: int = 5) -> tuple[float, float]:
    """Frames/s of ``work``, which returns its number of frames: median of the slices, and their spread.

    The GPU's queue is emptied at the ends of a slice, and every few batches within.
    """
    for _ in range(3):
        work()
    wait()
    rates = []
    for _ in range(slices):
        start, frames, batches = time.perf_counter(), 0, 0
        while batches == 0 or time.perf_counter() - start < seconds / slices:
            frames += work()
            batches += 1
            if batches % SYNC_EVERY == 0:
                wait()
        wait()
        rates.append(frames / (time.perf_counter() - start))
    median = float(np.median(rates))
    return median, float(np.ptp(rates)) / median


def to_numpy(image: Any) -> np.ndarray:
    """An observation as an array, wherever it is."""
    return image.cpu().numpy() if hasattr(image, "cpu") else np.asarray(image)


def save_sheet(name: str, rows: list[np.ndarray]) -> None:
    """Save rows of pictures, each [n, H, W, 1 or 3], one below the other, as a PNG in the folder of results."""
    strips = []
    for pictures in rows:
        pixels = pictures if pictures.dtype == np.uint8 else (np.clip(pictures, 0, 1) * 255).astype(np.uint8)
        pixels = np.broadcast_to(pixels, (*pixels.shape[:3], 3))
        strips.append(np.concatenate(list(pixels), axis=1))
    width = min(strip.shape[1] for strip in strips)
    Image.fromarray(np.concatenate([strip[:, :width] for strip in strips])).save(OUT / name)
