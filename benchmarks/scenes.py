"""Time and memory of one large scan: its preparation, and the first frame from the cache.

python benchmarks/scenes.py                          # 5 million triangles, 32 textures of 4096 x 4096
python benchmarks/scenes.py --triangles 500000 --textures 4 --json

Makes a GLB file of a building with noisy surfaces in a temporary folder, and loads it in child processes, so that each
has its own peak memory. Kernels are compiled before. Bars for two free cores: prepared in 60 s, with a peak of
three times the content (geometry in the file's types and decoded textures), and the first frame after 3 s.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gym_batchnav.env.config import Scenes

ROOM = 5.0  # metres
HEIGHT = 2.8
DOOR = (1.2, 2.1)  # width and height
BARS = {"prepare_seconds": 60.0, "prepare_peak_share": 3.0, "depth_seconds": 3.0, "rgb_seconds": 3.0}
_FLOAT = 5126
_UINT32 = 5125


@dataclass(frozen=True)
class Patch:
    """A flat rectangle, tessellated and displaced with noise."""

    corner: np.ndarray  # [3] metres
    along: np.ndarray  # [3] metres, the first side
    up: np.ndarray  # [3] metres, the second; along x up is the front

    @property
    def area(self) -> float:
        """Square metres."""
        return float(np.linalg.norm(np.cross(self.along, self.up)))

    def mesh(self, edge: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return vertices [V, 3], texture coordinates [V, 2] and triangles [T, 3] with edges of a length in metres."""
        n, m = (max(1, round(float(np.linalg.norm(side)) / edge)) for side in (self.along, self.up))
        s, t = np.meshgrid(np.linspace(0, 1, n + 1), np.linspace(0, 1, m + 1))
        front = np.cross(self.along, self.up) / self.area
        noise = 0.004 * rng.standard_normal(s.shape) + 0.006 * np.sin(9 * s + rng.uniform(0, 6)) * np.sin(7 * t)
        vertices = self.corner + s[..., None] * self.along + t[..., None] * self.up + noise[..., None] * front
        first = (np.arange(m)[:, None] * (n + 1) + np.arange(n)).ravel()
        lower = np.stack([first, first + 1, first + n + 2], axis=1)
        upper = np.stack([first, first + n + 2, first + n + 1], axis=1)
        uvs = np.stack([s, 1 - t], axis=-1)
        return vertices.reshape(-1, 3).astype("<f4"), uvs.reshape(-1, 2).astype("<f4"), np.vstack([lower, upper])


def room(x: float, y: float, z: float, rng: np.random.Generator) -> Iterator[tuple[str, list[Patch]]]:
    """Yield the objects of a room with its lowest corner at a point: floor, ceiling, walls with doors, furniture."""
    low = np.array([x, y, z])
    side_x = np.array([ROOM, 0, 0])
    side_z = np.array([0, 0, ROOM])
    high = np.array([0, HEIGHT, 0])
    yield "floor", [Patch(low, side_z, side_x)]
    yield "ceiling", [Patch(low + high, side_x, side_z)]
    end = low + side_x + side_z
    for corner, side in ((low, side_x), (low + side_z, -side_z), (low + side_x, side_z), (end, -side_x)):
        yield "wall", list(_wall(corner, side))
    for _ in range(6):
        size = rng.uniform([0.4, 0.3, 0.4], [1.2, 1.6, 1.2])
        start = low + rng.uniform([0.3, 0, 0.3], [ROOM - 1.5, 0, ROOM - 1.5])
        yield "furniture", list(_box(start, size))


def _wall(corner: np.ndarray, side: np.ndarray) -> Iterator[Patch]:
    """Yield the parts of a wall around the door in its middle."""
    unit = side / ROOM
    high = np.array([0, HEIGHT, 0])
    before = (ROOM - DOOR[0]) / 2
    yield Patch(corner, unit * before, high)
    yield Patch(corner + unit * (before + DOOR[0]), unit * before, high)
    yield Patch(corner + unit * before + [0, DOOR[1], 0], unit * DOOR[0], np.array([0, HEIGHT - DOOR[1], 0]))


def _box(low: np.ndarray, size: np.ndarray) -> Iterator[Patch]:
    """Yield the top and the four sides of a box."""
    x, y, z = np.diag(size)
    yield Patch(low + y, z, x)
    yield Patch(low + z, x, y)
    yield Patch(low + x + z, -z, y)
    yield Patch(low + x, -x, y)
    yield Patch(low, z, y)


@dataclass
class Glb:
    """A GLB file that is being written, with one buffer."""

    binary: bytearray = field(default_factory=bytearray)
    json: dict[str, Any] = field(default_factory=lambda: {"asset": {"version": "2.0"}, "scenes": [{"nodes": []}]})

    def add(self, kind: str, item: dict[str, Any]) -> int:
        """Append to a list of the document and return the number of the item."""
        self.json.setdefault(kind, []).append(item)
        return len(self.json[kind]) - 1

    def view(self, data: bytes) -> int:
        """Add a bufferView."""
        self.binary += b"\0" * (-len(self.binary) % 4)
        start = len(self.binary)
        self.binary += data
        return self.add("bufferViews", {"buffer": 0, "byteOffset": start, "byteLength": len(data)})

    def accessor(self, values: np.ndarray, component: int, kind: str) -> int:
        """Add an accessor."""
        item = {
            "componentType": component,
            "type": kind,
            "count": len(values),
            "bufferView": self.view(values.tobytes()),
        }
        return self.add("accessors", item)

    def write(self, path: Path) -> None:
        """Write the file."""
        self.json["buffers"] = [{"byteLength": len(self.binary)}]
        text = json.dumps(self.json).encode()
        text += b" " * (-len(text) % 4)
        self.binary += b"\0" * (-len(self.binary) % 4)
        with path.open("wb") as file:
            file.write(struct.pack("<5I", 0x46546C67, 2, 28 + len(text) + len(self.binary), len(text), 0x4E4F534A))
            file.write(text + struct.pack("<2I", len(self.binary), 0x004E4942))
            file.write(self.binary)


def make_scan(path: Path, num_triangles: int, num_textures: int, side: int, seed: int = 0) -> dict[str, int]:
    """Write the file of a scan and return its counts; the same seed gives the same bytes.

    Args:
        path: The file, ``.glb``.
        num_triangles: About this many.
        num_textures: Number of JPEG textures.
        side: Their side in pixels.
        seed: Of the noise.
    """
    rng = np.random.default_rng(seed)
    places = [(ROOM * i, 3.2 * storey, ROOM * j) for storey in range(2) for i in range(6) for j in range(5)]
    objects = [one for place in places for one in room(*place, rng)]
    area = sum(patch.area for _, patches in objects for patch in patches)
    edge = (2 * area / num_triangles) ** 0.5
    glb = Glb()
    for _ in range(num_textures):
        image = glb.add("images", {"bufferView": glb.view(picture(side, rng)), "mimeType": "image/jpeg"})
        glb.add("textures", {"source": image})
    found = 0
    for number, (name, patches) in enumerate(objects):
        surface: dict[str, Any] = {"baseColorFactor": [*rng.uniform(0.6, 1, 3).round(3).tolist(), 1]}
        if num_textures:
            surface["baseColorTexture"] = {"index": number % num_textures}
        meshes = [patch.mesh(edge, rng) for patch in patches]
        starts = np.cumsum([0, *(len(vertices) for vertices, _, _ in meshes)])
        triangles = np.vstack([rows + start for (_, _, rows), start in zip(meshes, starts, strict=False)])
        attributes = {
            "POSITION": glb.accessor(np.vstack([one[0] for one in meshes]), _FLOAT, "VEC3"),
            "TEXCOORD_0": glb.accessor(np.vstack([one[1] for one in meshes]), _FLOAT, "VEC2"),
        }
        corners = glb.accessor(triangles.astype("<u4").ravel(), _UINT32, "SCALAR")
        material = glb.add("materials", {"pbrMetallicRoughness": surface})
        mesh = glb.add("meshes", {"primitives": [{"attributes": attributes, "indices": corners, "material": material}]})
        glb.json["scenes"][0]["nodes"].append(glb.add("nodes", {"name": f"{name}_{number}", "mesh": mesh}))
        found += len(triangles)
    geometry = sum(view["byteLength"] for view in glb.json["bufferViews"][num_textures:])
    glb.write(path)
    return {
        "triangles": found,
        "objects": len(objects),
        "textures": num_textures,
        "file_bytes": path.stat().st_size,
        "content_bytes": geometry + 4 * num_textures * side**2,
    }


def picture(side: int, rng: np.random.Generator) -> bytes:
    """Return a JPEG file of smooth and fine noise."""
    coarse = rng.integers(60, 200, (side // 32, side // 32, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC))
    fine = rng.integers(0, 24, (side, side, 1), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(smooth + fine).save(stream, "JPEG", quality=85)
    return stream.getvalue()


def prepare(path: str, cache: str) -> dict[str, float]:
    """Prepare a scene for agents as ``scene prepare`` does; for a child process."""
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.prepare import NavigationPreparer
    from gym_batchnav.library.sources import scene_sources
    from gym_batchnav.library.workers import PreparationWorker

    begun = time.perf_counter()
    worked = time.process_time()
    disk = DiskCache(cache)
    (source,) = scene_sources(path, disk)
    scene = source.load()
    loaded = time.perf_counter()
    navmesh, _ = (preparer := NavigationPreparer(cache=disk)).ground(scene)
    walkable = time.perf_counter()
    preparer(scene)
    done = time.perf_counter()
    figures = {
        "seconds": done - begun,
        "read": loaded - begun,
        "navmesh": walkable - loaded,
        "episodes": done - walkable,
        "area": navmesh.navigable_area,
        "processor_seconds": time.process_time() - worked,
        "scene_bytes": scene.nbytes,
        "peak_bytes": peak_bytes(),
    }
    PreparationWorker(preparer).prepare_here(source.recipe)  # marks the scene as prepared
    return figures


def first_frame(path: str, cache: str, sensor: str) -> dict[str, float]:
    """Make an environment of a prepared scene and reset it; for a child process."""
    from gym_batchnav.env.batch import BatchNavEnv

    begun = time.perf_counter()
    worked = time.process_time()
    env = BatchNavEnv(16, scenes=Scenes(path, cache_dir=cache), sensors=(sensor,))
    observation, _ = env.reset(seed=0)
    seconds = time.perf_counter() - begun
    processor_seconds = time.process_time() - worked
    memory = env.library.stats()
    env.close()
    assert observation[sensor].any()
    return {
        "seconds": seconds,
        "processor_seconds": processor_seconds,
        "peak_bytes": peak_bytes(),
        "resident_bytes": memory["bytes"],
    }


def peak_bytes() -> int:
    """Return the largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child(*arguments: str) -> dict[str, Any]:
    """Run a part of this file in a separate process."""
    command = [sys.executable, __file__, "--child", *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Make the scan, prepare it and draw it, each in a separate process."""
    from gym_batchnav.library.warmup import warm_up

    file = folder / "scan.glb"
    figures: dict[str, Any] = {"load_average": os.getloadavg()[0]}
    figures |= make_scan(file, options.triangles, options.textures, options.texture_side)
    warm_up(renderer="embree")
    small = folder / "small.glb"  # the signatures of kernels that only a first run would compile
    make_scan(small, 20_000, 1, 64)
    for sensor in ("depth", "rgb"):
        child("prepare", str(small), str(folder / "cache"))
        child(sensor, str(small), str(folder / "cache"))
    prepared = child("prepare", str(file), str(folder / "cache"))
    figures |= {f"prepare_{name}": value for name, value in prepared.items()}
    figures["prepare_peak_share"] = prepared["peak_bytes"] / figures["content_bytes"]
    figures["prepare_peak_share_of_file"] = prepared["peak_bytes"] / figures["file_bytes"]
    for sensor in ("depth", "rgb"):
        figures |= {
            f"{sensor}_{name}": value for name, value in child(sensor, str(file), str(folder / "cache")).items()
        }
    return figures


def main() -> None:
    """Print the figures, and exit with status 1 if a bar is missed."""
    if sys.argv[1:2] == ["--child"]:
        part, path, cache = sys.argv[2:]
        print(json.dumps(prepare(path, cache) if part == "prepare" else first_frame(path, cache, part)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triangles", type=int, default=5_000_000)
    parser.add_argument("--textures", type=int, default=32)
    parser.add_argument("--texture-side", type=int, default=4096, help="pixels")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(options, Path(folder))
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            bar = f"  (bar {BARS[name]:g})" if name in BARS else ""
            print(f"{name}: {value:,.2f}{bar}" if isinstance(value, float) else f"{name}: {value:,}{bar}")
    if any(figures[name] > bar for name, bar in BARS.items()):
        sys.exit(1)


if __name__ == "__main__":
    main()
