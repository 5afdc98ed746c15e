"""Agreement of the two renderers on any scene files: pixels that differ, from views around each scene.

python benchmarks/agreement.py FILE_OR_FOLDER...        # folders are searched for scenes
python benchmarks/agreement.py models --views 32 --json

Files that cannot be loaded are listed with their reasons. It exits with 1 where the renderers disagree. Of all
pixels 0.01% may differ in depth by more than 1% or 1 cm, or in the object, and of those that show something 0.1% in
colour by more than 8 of 255.

Pixels for which the scene itself has no single answer are counted apart, as ambiguous: public files have surfaces of
two colours in one place, of which rounding shows either. A third computation decides this, by rays in float64 (see
ambiguity.py), and never the pictures alone: both must show the object and the depth of a surface that is hit there.
With these pixels counted, tests/render/test_agreement.py allows ten times as much (in colour three times).
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from ambiguity import find_ambiguous
from rich.progress import track

from gym_batchnav.geometry import Camera, look_at
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.embree.renderer import EmbreeRenderer
from gym_batchnav.render.opengl import OpenGLRenderer
from gym_batchnav.scene.load import SUFFIXES, load_scene
from gym_batchnav.scene.scene import Scene

SENSORS = ("depth", "rgb", "semantic")
RADIUS = 2.0  # metres, to which scenes are scaled, so that models of any size fill the views
MAX_SHARES = {"depth": 1e-4, "semantic": 1e-4, "rgb": 1e-3}


@dataclass(frozen=True)
class Agreement:
    """How far the renderers agree on one file.

    Attributes:
        file: The file.
        reason: Why it could not be loaded or drawn; empty if it was.
        seen: Share of the pixels that show something.
        depth: Share of the pixels whose depths differ, without ambiguous ones.
        semantic: Share of the pixels that show different objects, without ambiguous ones.
        rgb: Share of the pixels that show something, whose colours differ, without ambiguous ones.
        ambiguous: Share of the pixels that differ in anything and are ambiguous.
    """

    file: str
    reason: str = ""
    seen: float = 0.0
    depth: float = 0.0
    semantic: float = 0.0
    rgb: float = 0.0
    ambiguous: float = 0.0

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
    scene = _scaled(scene)
    views = _views_around(num_views)
    pictures = [draw(kind, scene, views, camera) for kind in (OpenGLRenderer, EmbreeRenderer)]
    return Agreement(str(file), **find_shares(scene, views, camera, pictures))


def draw(
    kind: type[OpenGLRenderer] | type[EmbreeRenderer], scene: Scene, views: np.ndarray, camera: Camera
) -> dict[str, np.ndarray]:
    """Return the pictures of a scene by sensor, drawn by a new renderer."""
    renderer = kind(SceneLibrary.from_scenes([scene]))
    target = renderer.target(camera, SENSORS, len(views))
    pictures = {sensor: image.copy() for sensor, image in target.render(np.zeros(len(views), np.int32), views).items()}
    renderer.close()
    return pictures


def find_shares(
    scene: Scene, views: np.ndarray, camera: Camera, pictures: list[dict[str, np.ndarray]]
) -> dict[str, float]:
    """Return the shares of an ``Agreement`` of two renderers' pictures, OpenGL's first."""
    first, second = pictures
    hit = second["semantic"][..., 0] > 0
    apart = np.abs(first["depth"] - second["depth"])[..., 0] * camera.max_depth
    differ = {
        "depth": apart > np.maximum(0.01, 0.01 * second["depth"][..., 0] * camera.max_depth),
        "semantic": (first["semantic"] != second["semantic"])[..., 0],
        "rgb": hit & (np.abs(first["rgb"].astype(int) - second["rgb"]).max(axis=-1) > 8),
    }
    ambiguous = find_ambiguous(scene, views, camera, pictures, np.any(list(differ.values()), axis=0))
    shares = {sensor: float((pixels & ~ambiguous).mean()) for sensor, pixels in differ.items()}
    shares["rgb"] *= hit.size / max(int(hit.sum()), 1)
    return {**shares, "seen": float(hit.mean()), "ambiguous": float(ambiguous.mean())}


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
        elif records[-1].ambiguous > 1e-3:
            print(f"ambiguous  {file}: {records[-1].ambiguous:.2%} of the pixels")
    drawn = [one for one in records if not one.reason]
    if not options.json:
        differ = sum(not one.agrees for one in drawn)
        print(f"{len(drawn)} files drawn, {differ} differ, {len(records) - len(drawn)} refused")
    sys.exit(not all(one.agrees for one in drawn))


if __name__ == "__main__":
    main()
