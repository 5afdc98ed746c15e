"""Colours of the Embree renderer: against closed forms and a slow twin in double precision."""

import dataclasses

import numpy as np
import pytest
from quads import Quad, checkerboard, rotations, scene_of, views_at
from rays import AHEAD, METRES, cast, pixel_rays, random_views, render, to_linear, to_srgb

from gym_batchnav.geometry import Camera
from gym_batchnav.render.textures import build_texture_pool, texture_size
from gym_batchnav.scene.scene import CLAMP, LINEAR, MIRROR, NEAREST, REPEAT, Scene

BARE = Camera(64, 64, normalize_depth=False, max_depth=1000, lit=False)


def wrap(texel: int, side: int, mode: int) -> int:
    """The texel inside the texture that stands for one outside."""
    if mode == REPEAT:
        return texel % side
    if mode == MIRROR:
        texel %= 2 * side
        return texel if texel < side else 2 * side - 1 - texel
    return min(max(texel, 0), side - 1)


def sample(image: np.ndarray, u: float, v: float, modes: np.ndarray, nearest: bool) -> np.ndarray:
    """The linear RGBA [4] of a square sRGB texture at (u, v), bilinear or of the texel there."""
    side = len(image)
    x = np.floor(u * side) if nearest else u * side - 0.5
    y = np.floor(v * side) if nearest else v * side - 0.5
    total = np.zeros(4)
    for i in (0, 1):
        for j in (0, 1):
            column = int(np.floor(x)) + i
            row = int(np.floor(y)) + j
            texel = image[wrap(row, side, modes[1]), wrap(column, side, modes[0])]
            weight = (1 - abs(x - column)) * (1 - abs(y - row))
            total += weight * np.append(to_linear(texel[:3]), texel[3] / 255)
    return total


class Twin:
    """Shades single pixels the slow, obvious way."""

    def __init__(self, scene: Scene, camera: Camera, view: np.ndarray) -> None:
        self.scene = scene
        self.camera = camera
        self.pool = build_texture_pool(scene, texture_size(camera))
        self.eye, self.directions = pixel_rays(camera, view)
        light = view[2, :3] + np.array([0.0, 1.0, 0.0])
        self.light = light / np.linalg.norm(light)
        self.step = 2 * camera.tan_half_width / camera.width
        self.right, self.up = view[0, :3].astype(np.float64), view[1, :3].astype(np.float64)

    def meet(self, triangle: int, direction: np.ndarray) -> tuple[np.ndarray, float]:
        """The weights [3] of the corners where a ray meets the triangle's plane, and how far along the ray that is."""
        corners = self.scene.vertices[self.scene.triangles[triangle]].astype(np.float64)
        shares = np.linalg.solve((corners - self.eye).T, direction)  # direction = sum of weights x corners / t
        return shares / shares.sum(), 1 / shares.sum()

    def color(self, triangle: int, row: int, column: int) -> np.ndarray:
        """The linear RGBA [4] of a triangle where a pixel's ray meets it, unlit."""
        scene = self.scene
        rows = self.scene.triangles[triangle]
        materials = scene.materials
        material = scene.triangle_material[triangle]
        direction = self.directions[row, column]
        weights, _ = self.meet(triangle, direction)
        color = materials.base_color[material].astype(np.float64)
        if scene.colors is not None:
            color = color * (weights @ (scene.colors[rows] / 255.0))
        texture = materials.texture[material]
        if texture < 0:
            return color
        uvs = scene.uvs[rows].astype(np.float64)
        u, v = weights @ uvs
        small = 1e-5  # of a pixel: the derivative is taken numerically
        footprint = [
            (self.meet(triangle, direction + axis * self.step * small)[0] @ uvs - (u, v)) / small * self.pool.size
            for axis in (self.right, self.up)
        ]
        longest = max(np.hypot(*axis) for axis in footprint)
        level = np.clip(np.log2(max(longest, 1e-9)), 0, len(self.pool.levels) - 1)
        fine = int(level)
        coarse = min(fine + 1, len(self.pool.levels) - 1)
        modes = materials.wrap[material]
        nearest = materials.filter[material] == NEAREST
        near, far = (sample(self.pool.levels[k][texture], u, v, modes, nearest and k == 0) for k in (fine, coarse))
        return color * (near + (level - fine) * (far - near))

    def rgb(self, triangle: int, row: int, column: int) -> np.ndarray:
        """The pixel's bytes [3], not rounded."""
        shine = 1.0
        if self.camera.lit:
            a, b, c = self.scene.vertices[self.scene.triangles[triangle]].astype(np.float64)
            normal = np.cross(b - a, c - a)
            normal *= -np.sign(normal @ self.directions[row, column]) / np.linalg.norm(normal)
            shine = 0.65 + 0.35 * max(0.0, normal @ self.light)
        return to_srgb(np.minimum(self.color(triangle, row, column)[:3] * shine, 1))


def assert_like_twin(scene: Scene, camera: Camera, views: np.ndarray, pixels: int) -> None:
    """Compare some pixels of every view that lie well inside triangles."""
    rng = np.random.default_rng(0)
    pictures = render(scene, views, camera, ("rgb",))["rgb"]
    errors = []
    for picture, view in zip(pictures, views, strict=True):
        twin = Twin(scene, camera, view)
        _, triangle = cast(scene, camera, view)
        for row, column in rng.integers(0, [camera.height, camera.width], (pixels, 2)):
            hit = triangle[row, column]
            if hit < 0 or twin.meet(hit, twin.directions[row, column])[0].min() < 1e-3:
                continue
            errors.append(np.abs(picture[row, column] - twin.rgb(hit, row, column)).max())
    assert len(errors) > 20
    assert np.quantile(errors, 0.99) < 1.0 and max(errors) < 3.0


def noise(seed: int, side: int = 64) -> np.ndarray:
    texture = np.random.default_rng(seed).integers(0, 256, (side, side, 4), dtype=np.uint8)
    texture[..., 3] = 255
    return texture


def panels() -> Scene:
    quads = []
    rng = np.random.default_rng(4)
    modes = ((REPEAT, REPEAT), (CLAMP, MIRROR), (MIRROR, CLAMP), (REPEAT, MIRROR), (MIRROR, MIRROR), (CLAMP, CLAMP))
    for k, (rotation, mode) in enumerate(zip(rotations(rng, 6), modes, strict=True)):
        origin = rotation[2] * 2 - rotation[0] * 3 - rotation[1] * 3
        quads.append(
            Quad(
                origin,
                rotation[0] * 6,
                rotation[1] * 6,
                texture=noise(k) if k != 3 else None,
                repeats=(2.5, 3.7) if k % 2 else (0.3, 9),
                base_color=(*rng.uniform(0.3, 1, 3), 1),
                colors=rng.integers(0, 256, (4, 4)).tolist() if k in (1, 3) else None,
                wrap=mode,
                filter=NEAREST if k % 3 == 2 else LINEAR,
            )
        )
    return scene_of(*quads)


@pytest.mark.parametrize("camera", [METRES, dataclasses.replace(BARE, width=90, height=70)])
def test_pixels_match_the_slow_twin(camera):
    assert_like_twin(panels(), camera, random_views(11, 6, 0.5), 60)


@pytest.mark.parametrize("turned", [False, True], ids=["one way", "back to back"])
@pytest.mark.parametrize("gap", [0.0, 3e-6])
def test_surfaces_in_one_plane_show_through_each_others_holes(gap, turned):
    # On slanted planes the distances to coplanar triangles differ by rounding, either way.
    left = checkerboard(2)
    right = checkerboard(2)
    left[..., 3], right[..., 3] = left[..., 0], 255 - left[..., 0]
    views = np.concatenate([AHEAD, views_at(np.zeros((40, 3)), rotations(np.random.default_rng(2), 40))])
    behind = Quad((4, 4, -4), (-8, 0, 0), (0, -8, 0))
    for slant in (0.0, 0.37, 1.3):
        origin = np.array([-3, -3, -2 - slant])
        edge_x = np.array([6, 0, slant])
        edge_y = np.array([0, 6, slant])
        first = Quad(tuple(origin), tuple(edge_x), tuple(edge_y), left, masked=True)
        back = (tuple(origin + edge_x - [0, 0, gap]), tuple(-edge_x), tuple(edge_y))
        front = (tuple(origin - [0, 0, gap]), tuple(edge_x), tuple(edge_y))
        mirrored = right[:, ::-1] if turned else right
        second = Quad(*(back if turned else front), np.ascontiguousarray(mirrored), masked=True)
        closed = Quad(tuple(origin), tuple(edge_x), tuple(edge_y))
        both = scene_of(first, second, behind)
        seen = render(both, views, BARE, ("depth", "semantic"))
        whole = render(scene_of(closed), views, BARE, ("depth", "semantic"))
        covered = whole["semantic"] == 1
        assert covered.mean() > 0.03
        assert np.isclose(seen["depth"][covered], whole["depth"][covered], rtol=1e-4).mean() > 0.9999
        assert set(np.unique(seen["semantic"][covered])) >= {1, 2}


def test_alpha_masks_match_the_slow_twin():
    rng = np.random.default_rng(5)
    texture = rng.integers(0, 256, (16, 16, 4), dtype=np.uint8)
    colors = rng.integers(100, 256, (4, 4)).tolist()
    layers = [
        Quad((-3, -3, -2 - k), (6, 0.3 * k, 0), (0, 6, -0.5 * k), texture, (2.3, 1.7), masked=True, wrap=mode, **more)
        for k, (mode, more) in enumerate(
            [
                ((REPEAT, MIRROR), {}),
                ((CLAMP, REPEAT), {"colors": colors}),
                ((MIRROR, CLAMP), {"base_color": (1, 1, 1, 0.9), "filter": NEAREST}),
            ]
        )
    ]
    scene = scene_of(*layers)
    views = random_views(3, 6, 0.3)
    cutoffs = scene.materials.alpha_cutoff[scene.triangle_material]
    wrong = 0
    total = 0
    semantic = render(scene, views, BARE, ("semantic",))["semantic"][..., 0]
    for picture, view in zip(semantic, views, strict=True):
        twin = Twin(scene, BARE, view)
        for row, column in rng.integers(0, 64, (60, 2)):
            expected = 0
            nearest = np.inf
            sure = True
            for triangle in range(len(scene.triangles)):
                weights, distance = twin.meet(triangle, twin.directions[row, column])
                if weights.min() <= 0 or distance < BARE.near:
                    continue
                alpha = twin.color(triangle, row, column)[3]
                sure &= abs(alpha - cutoffs[triangle]) > 0.01
                if alpha >= cutoffs[triangle] and distance < nearest:
                    expected = scene.triangle_object[triangle]
                    nearest = distance
            wrong += sure and picture[row, column] != expected
            total += sure
    assert total > 150 and wrong <= 0.01 * total
