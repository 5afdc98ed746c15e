"""Helpers that the stages share: figures written as soon as they are known, scenes, batches, and timing on GPUs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from gym_batchnav.env.batch_env import BatchNavEnv

OUT = Path(os.environ.get("OUT", "out/gpu"))
DATA = Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", "../shared"))
RESULTS = "results.jsonl"
APARTMENTS = "apartments"
HOUSE = DATA / "scenes" / "aws_small_house" / "aws_small_house.glb"
SYNC_EVERY = 8  # batches that may be queued on the GPU while frames are counted


def append(line: dict[str, Any]) -> None:
    """Append a line to the results file, so that it is kept even if this process is killed."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / RESULTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, default=str) + "\n")


class Report:
    """The figures of one stage.

    Args:
        stage: Name of the stage.

    Attributes:
        small: Whether to use few agents and short times.
        failed: Whether a part failed.
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
        """Write a figure; ``bar`` is the lowest acceptable value, or the highest one with ``at_most``."""
        line = {"stage": self.stage, "what": what, "value": value, "unit": unit, "note": note, **more}
        if bar is not None:
            line |= {"bar": bar, "at_most": at_most, "met": bool(value <= bar if at_most else value >= bar)}
        append(line)
        print(row(line), flush=True)

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """Run a block and write its error, if any, as a figure, so that the next part runs."""
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
    """Return a figure as a line of the table."""
    value = line["value"]
    if isinstance(value, bool) or value is None:
        shown = {True: "yes", False: "NO", None: "-"}[value]
    elif isinstance(value, (int, float)):
        shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"
    else:
        shown = str(value)
    note = line["note"]
    if len(shown) > 14:  # a name, not a number
        note = "; ".join(filter(None, (shown, note)))
        shown = ""
    bar = f"{'<=' if line['at_most'] else '>='} {line['bar']:,g}" if "bar" in line else ""
    verdict = ("met" if line["met"] else "NOT MET") if "met" in line else ""
    text = f"{line['stage']:<8}{line['what']:<58}{shown:>14} {line['unit']:<9}{bar:<12}{verdict:<8}{note}"
    return text.rstrip()


@cache
def cuda_unavailable_reason() -> str:
    """Return the reason why observations cannot stay on a GPU; ``""`` if they can."""
    from gym_batchnav import diagnosis

    return diagnosis.cuda_unavailable_reason()


def device() -> str:
    """Return ``"cuda"`` if observations can stay on a GPU, else ``"cpu"``."""
    return "cpu" if cuda_unavailable_reason() else "cuda"


def named_scenes() -> list[tuple[str, str]]:
    """Return the scenes to measure with their names: the apartments, and the house if its file exists."""
    house = [(str(HOUSE), "house")] if HOUSE.is_file() else []
    return [(APARTMENTS, "apartments"), *house]


@contextmanager
def open_batches(
    scene: str, num_envs: int, parts: int, renderer: str = "auto", **keywords: Any
) -> Iterator[list[BatchNavEnv]]:
    """Provide ``num_envs`` agents in batches that share scenes and a renderer, and close them at the end."""
    from gym_batchnav.env.batch_env import BatchNavEnv

    size = num_envs // parts
    keywords = {"autoreset_mode": "same_step", "reuse_buffers": True, "obs_device": device(), **keywords}
    with ExitStack() as stack:
        first = stack.enter_context(closing(BatchNavEnv(size, scenes=scene, renderer=renderer, **keywords)))
        envs = [first]
        for _ in range(parts - 1):
            other = BatchNavEnv(size, library=first.library, renderer=first.renderer, **keywords)
            envs.append(stack.enter_context(closing(other)))
        yield envs


def wait() -> None:
    """Wait until the GPU is idle, including OpenGL's work on pictures that CUDA reads."""
    if device() == "cuda":
        import torch

        torch.cuda.synchronize()


def rate(work: Callable[[], int], seconds: float, slices: int = 5) -> tuple[float, float]:
    """Return frames/s of ``work``, which returns its number of frames: the median of the slices, and their spread.

    The GPU is synchronized at the ends of each slice, and every ``SYNC_EVERY`` batches.
    """
    for _ in range(3):
        work()
    wait()
    rates = []
    for _ in range(slices):
        start = time.perf_counter()
        frames = 0
        batches = 0
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
    """Return an observation on any device as an array."""
    return image.cpu().numpy() if hasattr(image, "cpu") else np.asarray(image)


def save_sheet(name: str, rows: list[np.ndarray]) -> None:
    """Save rows of pictures, each [n, H, W, 1 or 3], as one PNG in the results folder."""
    strips = []
    for pictures in rows:
        pixels = pictures if pictures.dtype == np.uint8 else (np.clip(pictures, 0, 1) * 255).astype(np.uint8)
        pixels = np.broadcast_to(pixels, (*pixels.shape[:3], 3))
        strips.append(np.concatenate(list(pixels), axis=1))
    width = min(strip.shape[1] for strip in strips)
    Image.fromarray(np.concatenate([strip[:, :width] for strip in strips])).save(OUT / name)
