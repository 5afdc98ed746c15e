"""Embree's pictures, and a brute-force ray caster in double precision to judge them by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from quads import rotations, views_at

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.embree.renderer import EmbreeRenderer
from gym_batchnav.scene.scene import Scene

METRES = Camera(64, 64, normalize_depth=False, max_depth=1000.0)
AHEAD = np.eye(4, dtype=np.float32)[None]  # at the origin, looking along -z


def render(
    scenes: Scene | list[Scene],
    views: np.ndarray,
    camera: Camera = METRES,
    sensors: Sequence[str] = ("depth",),
    slots: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """One batch of Embree's pictures of some scenes."""
    library = SceneLibrary.from_scenes(scenes if isinstance(scenes, list) else [scenes])
    slots = np.zeros(len(views), np.int32) if slots is None else slots
    return EmbreeRenderer(library).target(camera, tuple(sensors), len(views)).render(slots, views)


def assert_alike(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    """The same pictures up to the rounding of other places in OpenGL's framebuffer."""
    assert (np.abs(a["depth"] - b["depth"]) <= 1e-3 * np.maximum(b["depth"], 0.1)).mean() > 0.999
    assert (a["semantic"] == b["semantic"]).mean() > 0.999
    assert np.abs(a["rgb"].astype(int) - b["rgb"]).mean() < 0.1


def pixel_rays(camera: Camera, view: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The eye [3] and directions [H, W, 3], one long along the view axis, of a view, in double precision."""
    rotation = view[:3, :3].astype(np.float64)
    pixel = 2 * np.tan(np.radians(camera.hfov_deg) / 2) / camera.width
    right = (np.arange(camera.width) + 0.5 - camera.width / 2) * pixel
    up = (camera.height / 2 - np.arange(camera.height) - 0.5) * pixel
    local = np.stack(np.broadcast_arrays(right[None, :], up[:, None], -1.0), axis=-1)
    return -rotation.T @ view[:3, 3], local @ rotation


def cast(scene: Scene, camera: Camera, view: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distance [H, W] and triangle [H, W] (-1: none) of the nearest hit, by trying every triangle."""
    eye, directions = pixel_rays(camera, view)
    rays = directions.reshape(-1, 3)
    a, b, c = scene.vertices[scene.triangles].astype(np.float64).transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    along = rays @ normal.T  # [rays, T]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.einsum("ti,ti->t", a - eye, normal) / along
        inside = np.ones_like(t, bool)
        for p, q in ((a, b), (b, c), (c, a)):
            # The ray passes an edge on its inner side: the triple product has the sign of -along.
            triple = rays @ np.cross(p - eye, q - eye).T
            inside &= triple * np.sign(along) >= 0
        t = np.where(inside & (t >= camera.near), t, np.inf)
    nearest = t.argmin(axis=1)
    distance = t[np.arange(len(rays)), nearest]
    shape = (camera.height, camera.width)
    return distance.reshape(shape), np.where(np.isfinite(distance), nearest, -1).reshape(shape)


def trace(scene: Scene, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Distance along every ray to the first triangle, metres; infinite if it escapes."""
    from embreex.mesh_construction import TriangleMesh
    from embreex.rtcore_scene import EmbreeScene

    tree = EmbreeScene(robust=True)
    TriangleMesh(tree, scene.vertices[scene.triangles])
    hit = tree.run(origins.astype(np.float32), directions.astype(np.float32), query="DISTANCE")
    return np.where(hit > 1e30, np.inf, hit)


def random_views(seed: int, count: int, spread: float = 1.0) -> np.ndarray:
    """Views from around the origin with any roll and pitch."""
    rng = np.random.default_rng(seed)
    return views_at(rng.uniform(-spread, spread, (count, 3)), rotations(rng, count))


def highest_surface(corners: np.ndarray, eye: np.ndarray) -> float:
    """Height of the first surface straight below an eye [3] among triangles [T, 3, 3]; -inf if there is none."""
    x, y, z = eye.astype(np.float64)
    low = corners.min(axis=1)
    high = corners.max(axis=1)
    near = (low[:, 0] <= x) & (high[:, 0] >= x) & (low[:, 2] <= z) & (high[:, 2] >= z) & (low[:, 1] <= y)
    a, b, c = np.moveaxis(corners[near].astype(np.float64), 1, 0)
    u = b - a
    v = c - a
    area = u[:, 0] * v[:, 2] - u[:, 2] * v[:, 0]
    upright = np.abs(area) <= 1e-12
    area[upright] = 1.0
    s = ((x - a[:, 0]) * v[:, 2] - (z - a[:, 2]) * v[:, 0]) / area
    t = (u[:, 0] * (z - a[:, 2]) - u[:, 2] * (x - a[:, 0])) / area
    height = a[:, 1] + s * u[:, 1] + t * v[:, 1]
    hit = ~upright & (np.minimum(np.minimum(s, t), 1 - s - t) >= -1e-9) & (height <= y)
    return float(height[hit].max(initial=-np.inf))


def to_linear(value: np.ndarray) -> np.ndarray:
    """Decode sRGB bytes by the standard (IEC 61966-2-1), in double precision."""
    value = np.asarray(value) / 255.0
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def to_srgb(light: np.ndarray) -> np.ndarray:
    """Encode linear light as unrounded sRGB bytes by the standard."""
    light = np.asarray(light)
    return 255 * np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)
