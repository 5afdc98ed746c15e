"""Agreement of the two renderers on any scene files: pixels that differ, from views around each scene.

python benchmarks/agreement.py FILE_OR_FOLDER...        # folders are searched for scenes
python benchmarks/agreement.py models --views 32 --json

Files that cannot be loaded are listed with their reasons. It exits with 1 where the renderers disagree. The bars are
those of tests/render/test_agreement.py: of all pixels 0.1% may differ in depth by more than 1% or in the object, of
those that show something 0.3% in colour by more than 8 of 255.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich.progress import track

from gym_batchnav.geometry import Camera, look_at
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.embree.renderer import EmbreeRenderer
from gym_batchnav.render.opengl import OpenGLRenderer
from gym_batchnav.scene.load import SUFFIXES, load_scene
from gym_batchnav.scene.scene import Scene

SENSORS = ("depth", "rgb", "semantic")
RADIUS = 2.0  # metres, to which scenes are scaled, so that models of any size fill the views
MAX_SHARES = {"depth": 1e-3, "semantic": 1e-3, "rgb": 3e-3}


@dataclass(frozen=True)
class Agreement:
    """How far the renderers agree on one file.

    Attributes:
        file: The file.
        reason: Why it could not be loaded or drawn; empty if it was.
        seen: Share of the pixels that show something.
        depth: Share of the pixels whose depths differ.
        semantic: Share of the pixels that show different objects.
        rgb: Share of the pixels that show something, whose colours differ.
    """

    file: str
    reason: str = ""
    seen: float = 0.0
    depth: float = 0.0
    semantic: float = 0.0
    rgb: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether all shares are within the bars."""
        return all(getattr(self, sensor) <= share for sensor, share in MAX_SHARES.items())


def compare(file: Path, num_views: int, camera: Camera) -> Agreement:
    """Load a file, draw it with both renderers, and compare the pictures."""
    try:
        scene = load_scene(file)
    except (ValueError, OSError) as error:
        return Agreement(str(file), reason=str(error))
    library = SceneLibrary.from_scenes([_scaled(scene)])
    views = _views_around(num_views)
    slots = np.zeros(num_views, np.int32)
    shown = []
    for renderer in (OpenGLRenderer(library), EmbreeRenderer(library)):
        target = renderer.target(camera, SENSORS, num_views)
        shown.append({sensor: image.copy() for sensor, image in target.render(slots, views).items()})
        renderer.close()
    first, second = shown
    hit = second["semantic"][..., 0] > 0
    apart = np.abs(first["depth"] - second["depth"]) * camera.max_depth
    color = np.abs(first["rgb"].astype(int) - second["rgb"]).max(axis=-1) > 8
    return Agreement(
        str(file),
        seen=float(hit.mean()),
        depth=float((apart > np.maximum(0.01, 0.01 * second["depth"] * camera.max_depth)).mean()),
        semantic=float((first["semantic"] != second["semantic"]).mean()),
        rgb=float(color[hit].mean()) if hit.any() else 0.0,
    )


def _scaled(scene: Scene) -> Scene:
    """Return a scene with its centre in the origin and a radius of two metres."""
    low, high = scene.bounds.astype(np.float64)
    radius = max(float(np.linalg.norm(high - low)) / 2, 1e-12)
    vertices = ((scene.vertices - (low + high) / 2) * (RADIUS / radius)).astype(np.float32)
    return replace(scene, vertices=vertices, navmesh=None)


def _views_around(count: int) -> np.ndarray:
    """Return views [count, 4, 4] from a spiral around the origin, which they face."""
    turns = np.arange(count) * (np.pi * (3 - np.sqrt(5)))
    heights = np.linspace(-0.9, 0.9, count)
    across = np.sqrt(1 - heights**2)
    eyes = 1.5 * RADIUS * np.stack([across * np.cos(turns), heights, across * np.sin(turns)], axis=1)
    return look_at(eyes, np.zeros((count, 3)))


def main() -> None:
    """Print a line per file whose pictures differ or that was refused, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help="scene files, or folders to search")
    parser.add_argument("--views", type=int, default=16, help="views per file")
    parser.add_argument("--json", action="store_true", help="print one line of JSON per file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = [sorted(path.rglob("*")) if path.is_dir() else [path] for path in options.paths]
    files = [file for group in found for file in group if file.suffix.lower() in SUFFIXES]
    camera = Camera(width=96, height=96)
    records = []
    for file in track(files, description="Comparing", disable=options.json or not sys.stderr.isatty()):
        records.append(compare(file, options.views, camera))
        if options.json:
            print(json.dumps(asdict(records[-1])), flush=True)
        elif records[-1].reason:
            print(f"refused  {file}: {records[-1].reason}")
        elif not records[-1].agrees:
            shares = ", ".join(f"{sensor} {getattr(records[-1], sensor):.2%}" for sensor in MAX_SHARES)
            print(f"DIFFERS  {file}: {shares}")
    drawn = [one for one in records if not one.reason]
    if not options.json:
        differ = sum(not one.agrees for one in drawn)
        print(f"{len(drawn)} files drawn, {differ} differ, {len(records) - len(drawn)} refused")
    sys.exit(not all(one.agrees for one in drawn))


if __name__ == "__main__":
    main()
