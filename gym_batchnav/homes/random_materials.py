"""Random materials for generated scenes: domain randomisation for policies that see colours."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np

from gym_batchnav.homes import textures
from gym_batchnav.homes.textures import SIZE
from gym_batchnav.scene.color import srgb_to_linear
from gym_batchnav.scene.scene import Scene

_STREAM = zlib.crc32(b"materials")
_PATTERNS = 8  # textures painted for each scene
_PLAIN, _OWN = 0.3, 0.6  # below the first, a material becomes plain; below the second, it keeps its texture
_BARE = 0.4  # share of scenes that become bare
_FLAT = 0.6  # share of bare scenes in which neither light nor colour varies from surface to surface
_BARE_MATERIALS = 0.8  # share of the materials of a bare scene that change at least
_LIKE_THE_REST = 0.75  # share of the materials of a bare scene that have nearly the same colour


def with_random_materials(scene: Scene, share: float, seed: int) -> Scene:
    """Return a generated scene with random colours and textures on some of its materials.

    Such a material keeps its texture, becomes plain or gets one of eight painted patterns, and is tinted. Two fifths of
    the scenes become bare, as mock-ups and levels of games are: plain, and mostly of one colour. Most of these lose the
    light of windows and the shade of corners as well, so that a wall and its floor may look the same. The geometry
    stays. Tobin et al. (2017, "Domain Randomization") train detectors on materials like these.

    Args:
        scene: A scene of ``generate_apartment`` or ``generate_building``.
        share: 0 to 1, the probability of each material.
        seed: Equal seeds give equal materials.
    """
    rng = np.random.Generator(np.random.PCG64([seed, _STREAM]))
    bare = np.random.Generator(np.random.PCG64([seed, _STREAM, 1]))  # draws only for bare scenes
    old = scene.materials
    light = scene.colors
    chosen = rng.random(len(old)) < share
    kind = rng.random(len(old))
    pattern = len(scene.textures) + rng.integers(_PATTERNS, size=len(old))
    texture = np.where(kind < _PLAIN, -1, np.where(kind < _OWN, old.texture, pattern))
    colors = _colors(len(old), rng)
    if bare.random() < _BARE:
        chosen |= bare.random(len(old)) < _BARE_MATERIALS
        texture[:] = -1
        alike = bare.random(len(old)) < _LIKE_THE_REST
        rest = _colors(1, bare) ** bare.uniform(0.2, 1)  # often pale
        shades = bare.uniform(0.85, 1, (alike.sum(), 1))
        if bare.random() < _FLAT:
            shades[:] = 1
            light = np.full_like(light, 255)
        colors[alike] = rest * shades
    tint = np.ones((len(old), 4))
    tint[:, :3] = srgb_to_linear(colors)
    materials = replace(
        old,
        base_color=np.where(chosen[:, None], tint, old.base_color).astype(np.float32),
        texture=np.where(chosen, texture, old.texture).astype(np.int32),
    )
    patterns = [textures.paint(_pattern, rng) for _ in range(_PATTERNS)]
    return replace(scene, materials=materials, textures=(*scene.textures, *patterns), colors=light)


def _colors(count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw sRGB colours [count, 3], from grey to saturated; most rooms have more pale surfaces than dark ones."""
    value = rng.uniform(0.1, 1, count) ** 0.7
    saturation = rng.uniform(0, 1, count) ** 2
    hue = rng.random((count, 3))
    hue /= hue.max(axis=1, keepdims=True)
    return value[:, None] * (1 - saturation[:, None] * (1 - hue))


def _pattern(rng: np.random.Generator) -> np.ndarray:
    """Paint clouds, grain, stripes, checks or dots in two random colours."""
    v, u = np.mgrid[:SIZE, :SIZE] / SIZE
    kind = rng.integers(4)
    repeats = int(rng.integers(1, 13))
    if kind == 0:
        amount = 0.5 + 0.3 * textures.noise(rng, rng.uniform(0.3, 2), rng.choice([1, 1, 6, 24]))
    elif kind == 1:
        amount = 0.5 + 0.5 * np.tanh(
            rng.uniform(1, 20) * np.sin(2 * np.pi * repeats * (u if rng.random() < 0.5 else v))
        )
    elif kind == 2:
        amount = ((u * 2 * repeats).astype(int) + (v * 2 * repeats).astype(int)) % 2
    else:
        amount = np.hypot(u * repeats % 1 - 0.5, v * repeats % 1 - 0.5) < rng.uniform(0.1, 0.6)
    first, second = _colors(2, rng)
    share = np.clip(amount + 0.05 * textures.noise(rng, 1.0), 0, 1)[..., None]
    return first * (1 - share) + second * share
