"""Tileable textures, painted with NumPy: wood, tiles, cloth, plaster, leaves and pictures.

A painter takes a random stream and returns sRGB values [SIZE, SIZE, 3] between 0 and 1. Those that a finish tints
(plaster, cloth, grain) are near white, so that one texture serves many colours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SIZE = 256
Painter = Callable[[np.random.Generator], np.ndarray]


def noise(rng: np.random.Generator, slope: float, stretch: float = 1.0) -> np.ndarray:
    """Return tileable fractal noise [SIZE, SIZE] of mean 0 and deviation 1.

    Args:
        rng: Random stream.
        slope: Power by which amplitude falls with frequency: 0 is white, 2 is cloudy.
        stretch: Ratio of the length of features along u to that along v.
    """
    v = np.fft.fftfreq(SIZE)[:, None] * SIZE
    u = np.fft.rfftfreq(SIZE)[None] * SIZE
    frequency = np.hypot(u * stretch, v)
    frequency[0, 0] = 1.0
    spectrum = np.fft.rfft2(rng.standard_normal((SIZE, SIZE))) * frequency**-slope
    spectrum[0, 0] = 0.0
    field = np.fft.irfft2(spectrum, (SIZE, SIZE))
    return field / field.std()


def _mix(dark: tuple[float, float, float], light: tuple[float, float, float], amount: np.ndarray) -> np.ndarray:
    """Interpolate between two colours by an amount [...] from 0 to 1."""
    share = np.clip(amount, 0, 1)[..., None]
    return np.array(dark) * (1 - share) + np.array(light) * share


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates v [SIZE, 1] and u [1, SIZE] of the pixel centres, from 0 to 1."""
    centres = (np.arange(SIZE) + 0.5) / SIZE
    return centres[:, None], centres[None]


def _grain(rng: np.random.Generator) -> np.ndarray:
    """Paint wood grain along u, mean 0."""
    fibres = 0.5 * noise(rng, 0.7, 24) + 0.5 * noise(rng, 1.2, 10)
    rings = np.sin(8 * noise(rng, 1.9, 9) + 3 * noise(rng, 1.6, 14))
    return 0.6 * fibres + 0.5 * rings


def _planks(
    rng: np.random.Generator, dark: tuple[float, float, float], light: tuple[float, float, float]
) -> np.ndarray:
    """Paint ten rows of planks along u, with staggered joints."""
    rows = 10
    length = SIZE
    v = np.arange(SIZE) * rows / SIZE
    row = v.astype(int)
    start = rng.integers(0, length, rows)
    u = (np.arange(SIZE)[None] + start[row][:, None]) % length
    half = u * 2 // length
    tone = rng.normal(0.5, 0.17, (rows, 2))[row[:, None], half]
    grain = _grain(rng)
    shifted = np.take_along_axis(grain, (u * 1 + 61 * half) % SIZE, axis=1)
    colour = _mix(dark, light, tone + 0.12 * shifted)
    gap = (v[:, None] % 1 < rows / SIZE * 0.9) | (u % (length // 2) < 1)
    return colour * np.where(gap, 0.62, 1.0)[..., None]


def oak_planks(rng: np.random.Generator) -> np.ndarray:
    """Paint a light parquet."""
    return _planks(rng, (0.60, 0.43, 0.26), (0.84, 0.68, 0.48))


def walnut_planks(rng: np.random.Generator) -> np.ndarray:
    """Paint a dark parquet."""
    return _planks(rng, (0.29, 0.18, 0.11), (0.54, 0.37, 0.24))


def grey_planks(rng: np.random.Generator) -> np.ndarray:
    """Paint a weathered grey parquet."""
    return _planks(rng, (0.50, 0.45, 0.40), (0.76, 0.72, 0.66))


def herringbone(rng: np.random.Generator) -> np.ndarray:
    """Paint herringbone parquet with blocks of ratio one to four."""
    cells = 16  # The pattern repeats every 2 x 4 blocks' widths; 16 of them fill the tile.
    y = np.arange(SIZE)[:, None] * cells / SIZE
    x = np.arange(SIZE)[None] * cells / SIZE
    column = x.astype(int)
    line = y.astype(int)
    phase = (column - line) % 8
    lying = phase < 4
    block = np.where(lying, (column - phase) * 31 + line * 17, column * 29 + (line - (7 - phase)) * 13) % 64
    tone = rng.normal(0.5, 0.2, 64)[block]
    grain = _grain(rng)
    colour = _mix((0.50, 0.34, 0.20), (0.80, 0.62, 0.42), tone + 0.10 * np.where(lying, grain, grain.T))
    fx = x % 1
    fy = y % 1
    edge = 0.07
    gap = np.where(lying, (fy < edge) | ((phase == 0) & (fx < edge)), (fx < edge) | ((phase == 7) & (fy < edge)))
    return colour * np.where(gap, 0.68, 1.0)[..., None]


def wood_grain(rng: np.random.Generator) -> np.ndarray:
    """Paint plain boards for furniture, near white, to be tinted."""
    return _mix((0.66, 0.62, 0.58), (1.0, 0.99, 0.97), 0.66 + 0.2 * _grain(rng) + 0.06 * noise(rng, 1.5, 4))


def _tiles(
    rng: np.random.Generator, rows: int, columns: int, shift: float, joint: float, glaze: np.ndarray, grout: float
) -> np.ndarray:
    """Paint rectangular tiles of colour ``glaze`` [SIZE, SIZE, 3]; ``joint`` is half the grout's width, in tiles."""
    v, u = _grid()
    row = np.floor(v * rows).astype(int)
    across = u * columns + shift * (row % 2)
    column = np.floor(across).astype(int) % columns
    fv = v * rows % 1
    fu = across % 1
    edge = np.minimum(np.minimum(fv, 1 - fv), np.minimum(fu, 1 - fu) * rows / columns)
    tone = 1 + 0.045 * rng.standard_normal((rows, columns))[row, column]
    inside = np.clip((edge - joint) * SIZE / rows, 0, 1)[..., None]
    return inside * glaze * tone[..., None] + (1 - inside) * grout * np.ones(3)


def floor_tiles(rng: np.random.Generator) -> np.ndarray:
    """Paint two by two stone tiles."""
    stone = _mix((0.58, 0.56, 0.52), (0.82, 0.80, 0.76), 0.5 + 0.16 * noise(rng, 1.3) + 0.07 * noise(rng, 0.5))
    return _tiles(rng, 2, 2, 0.0, 0.012, stone, 0.50)


def checker_tiles(rng: np.random.Generator) -> np.ndarray:
    """Paint four by four tiles, light and dark."""
    v, u = _grid()
    dark = ((v * 4).astype(int) + (u * 4).astype(int)) % 2
    stone = _mix((0.27, 0.29, 0.31), (0.88, 0.87, 0.84), 1 - dark + 0.05 * noise(rng, 1.2))
    return _tiles(rng, 4, 4, 0.0, 0.018, stone, 0.62)


def wall_tiles(rng: np.random.Generator) -> np.ndarray:
    """Paint small square glazed tiles, near white, to be tinted."""
    glaze = _mix((0.80, 0.82, 0.83), (1.0, 1.0, 1.0), 0.75 + 0.1 * noise(rng, 1.6))
    return _tiles(rng, 6, 6, 0.0, 0.03, glaze, 0.74)


def subway_tiles(rng: np.random.Generator) -> np.ndarray:
    """Paint wide glazed tiles in running bond, near white, to be tinted."""
    glaze = _mix((0.82, 0.83, 0.83), (1.0, 1.0, 1.0), 0.75 + 0.1 * noise(rng, 1.6))
    return _tiles(rng, 8, 4, 0.5, 0.035, glaze, 0.70)


def brick(rng: np.random.Generator) -> np.ndarray:
    """Paint a wall of red bricks."""
    clay = _mix((0.45, 0.22, 0.15), (0.74, 0.43, 0.32), 0.5 + 0.16 * noise(rng, 0.6) + 0.10 * noise(rng, 1.4))
    return _tiles(rng, 12, 4, 0.5, 0.07, clay, 0.68) * (1 + 0.03 * noise(rng, 0.4))[..., None]


def marble(rng: np.random.Generator) -> np.ndarray:
    """Paint polished pale stone with veins."""
    veins = np.exp(-6 * np.abs(noise(rng, 1.7))) + 0.5 * np.exp(-9 * np.abs(noise(rng, 1.5)))
    return _mix((0.93, 0.92, 0.90), (0.52, 0.51, 0.50), 0.65 * veins + 0.05 * noise(rng, 1.2))


def granite(rng: np.random.Generator) -> np.ndarray:
    """Paint dark speckled stone."""
    return _mix((0.16, 0.16, 0.17), (0.62, 0.60, 0.57), 0.30 + 0.13 * noise(rng, 0.5) + 0.1 * noise(rng, 1.0))


def plaster(rng: np.random.Generator) -> np.ndarray:
    """Paint a plastered wall, near white, to be tinted."""
    tone = 0.965 + 0.010 * noise(rng, 1.5) + 0.006 * noise(rng, 0.5)
    return np.clip(tone, 0, 1)[..., None] * np.ones(3)


def wallpaper(rng: np.random.Generator) -> np.ndarray:
    """Paint stripes or damask leaves on paper, near white, to be tinted."""
    v, u = _grid()
    if rng.random() < 0.4:
        motif = 0.5 + 0.5 * np.tanh(8 * np.sin(2 * np.pi * 4 * u + 0 * v))
    else:
        fu = (u * 4 + 0.5 * ((v * 4).astype(int) % 2)) % 1 - 0.5
        fv = v * 4 % 1 - 0.5
        petal = np.hypot(fu * (2.2 + 1.3 * np.cos(6 * np.pi * fv)), fv)
        motif = 0.5 + 0.5 * np.tanh(14 * (0.36 - petal)) - 0.6 * np.exp(-((petal - 0.2) ** 2) / 0.002)
    return _mix((0.80, 0.80, 0.80), (0.99, 0.99, 0.99), 0.85 - 0.6 * motif + 0.03 * noise(rng, 1.0))


def weave(rng: np.random.Generator) -> np.ndarray:
    """Paint upholstery cloth, near white, to be tinted."""
    v, u = _grid()
    threads = np.sin(2 * np.pi * 32 * u) * np.sin(2 * np.pi * 32 * v)
    return _mix((0.62, 0.62, 0.62), (1, 1, 1), 0.68 + 0.13 * threads + 0.09 * noise(rng, 0.3) + 0.05 * noise(rng, 1.4))


def carpet(rng: np.random.Generator) -> np.ndarray:
    """Paint a woven rug: a lattice of rhombs and stripes, near white, to be tinted."""
    v, u = _grid()
    rhomb = np.abs((u * 2) % 1 - 0.5) + np.abs((v * 2) % 1 - 0.5)
    lines = np.exp(-(((rhomb * 4) % 1 - 0.5) ** 2) / 0.02)
    return _mix(
        (0.42, 0.40, 0.38), (1, 0.98, 0.95), 0.85 - 0.55 * lines + 0.08 * noise(rng, 0.2) + 0.04 * noise(rng, 1.3)
    )


def brushed_metal(rng: np.random.Generator) -> np.ndarray:
    """Paint brushed steel along u."""
    return _mix((0.58, 0.59, 0.60), (0.86, 0.87, 0.88), 0.5 + 0.16 * noise(rng, 0.4, 40))


def leaf(rng: np.random.Generator) -> np.ndarray:
    """Paint one leaf across the whole image, stalk at u = 0, with its ribs."""
    v, u = _grid()
    across = np.abs(v - 0.5) * 2
    middle = np.exp(-((across / 0.05) ** 2))
    ribs = np.exp(-((((u - 0.45 * across) * 9) % 1 - 0.5) ** 2) / 0.012) * (1 - across)
    tone = 0.42 + 0.10 * noise(rng, 1.3) + 0.35 * middle + 0.20 * ribs - 0.15 * across
    return _mix((0.13, 0.27, 0.10), (0.50, 0.66, 0.32), tone)


def book_spines(rng: np.random.Generator) -> np.ndarray:
    """Paint thirty-two spines side by side, each a 32nd of u: bands, titles, many colours."""
    count = 32
    width = SIZE // 32
    covers = ["8c2f2b", "b5563a", "d8a23c", "e9dfc8", "2f4a3c", "5f7f56", "28425e", "4f7ca0", "1f2226", "6b4a36"]
    covers += ["c9bfae", "7a3b4b", "a9b8bd", "d9d3c2", "3c3a4f", "c77f5a"]
    pick = rng.permutation(np.repeat(np.arange(16), 2))
    shades = np.array([[int(cover[i : i + 2], 16) for i in (0, 2, 4)] for cover in covers]) / 255
    cover = np.clip(shades[pick] * rng.uniform(0.8, 1.15, (count, 1)), 0, 1)
    value = cover.mean(axis=1)
    image = np.repeat(np.repeat(cover[None], SIZE, axis=0), width, axis=1)
    for k in range(count):
        ink = cover[k] * 0.45 if value[k] > 0.6 else 0.5 + 0.5 * cover[k]
        columns = slice(k * width, (k + 1) * width)
        top = int(rng.integers(14, 60))
        for start, stop in ((top, top + 4), (SIZE - 40, SIZE - 34)):
            image[start:stop, columns] = ink
        letters = rng.random(24) < 0.7
        rows = np.arange(top + 16, top + 16 + 4 * 24)
        image[rows[np.repeat(letters, 4)], k * width + 3 : k * width + 5] = ink
        image[:, k * width] *= 0.55
    return image * (1 + 0.03 * noise(rng, 0.5))[..., None]


def pictures(rng: np.random.Generator) -> np.ndarray:
    """Paint four pictures, one per quarter of the image: a landscape, a sea, an abstract, a flower."""
    half = SIZE // 2
    v, u = np.mgrid[:half, :half] / half
    soft = noise(rng, 1.8)
    quarter = (soft[:half, :half], soft[half:, :half], soft[:half, half:], soft[half:, half:])
    image = np.empty((SIZE, SIZE, 3))
    hills = 0.55 + 0.10 * np.sin(5 * u + 6 * rng.random()) + 0.05 * np.sin(13 * u + 6 * rng.random())
    land = _mix((0.20, 0.34, 0.17), (0.72, 0.66, 0.33), (v - hills) * 2 + 0.1 * quarter[0])
    sky = _mix((0.35, 0.55, 0.80), (0.97, 0.86, 0.70), v * 1.7 + 0.12 * quarter[0])
    image[:half, :half] = np.where((v > hills)[..., None], land, sky)
    sea = _mix((0.05, 0.22, 0.35), (0.30, 0.62, 0.68), 1.6 - v * 1.5 + 0.15 * np.sin(60 * v + 3 * quarter[1]))
    dusk = _mix((0.95, 0.55, 0.32), (0.98, 0.88, 0.62), v * 2 + 0.1 * quarter[1])
    sun = np.hypot(u - 0.3 - 0.4 * rng.random(), v - 0.3) < 0.1
    image[half:, :half] = np.where((v > 0.5)[..., None], sea, np.where(sun[..., None], [1.0, 0.95, 0.75], dusk))
    abstract = np.broadcast_to([0.92, 0.89, 0.83], (half, half, 3)).copy()
    for _ in range(7):
        x, y, w, h = rng.random(4) * [0.8, 0.8, 0.4, 0.4] + [0, 0, 0.08, 0.08]
        colour = np.array([[0.16, 0.20, 0.30], [0.80, 0.35, 0.22], [0.90, 0.72, 0.34], [0.38, 0.55, 0.53]])[
            rng.integers(4)
        ]
        round_shape = rng.random() < 0.45
        inside = np.hypot(u - x, v - y) < w / 1.6 if round_shape else (np.abs(u - x) < w) & (np.abs(v - y) < h)
        abstract[inside] = colour
    image[:half, half:] = abstract
    angle = np.arctan2(v - 0.42, u - 0.5)
    distance = np.hypot(u - 0.5, v - 0.42)
    flower = np.broadcast_to(rng.uniform(0.75, 0.95, 3), (half, half, 3)).copy()
    flower[(np.abs(u - 0.5) < 0.012) & (v > 0.45)] = (0.22, 0.42, 0.20)
    flower[distance < 0.20 + 0.09 * np.cos(7 * angle)] = rng.random(3) * [0.5, 0.4, 0.6] + [0.5, 0.1, 0.1]
    flower[distance < 0.07] = (0.93, 0.77, 0.24)
    image[half:, half:] = flower
    return image * (1 + 0.02 * noise(rng, 0.6))[..., None]


def outdoors(rng: np.random.Generator) -> np.ndarray:
    """Paint the view through windows: a bright sky, far hills and trees along the lower edge; it repeats along u."""
    v, u = _grid()
    clouds = noise(rng, 1.7, 1.6)
    sky = _mix((0.56, 0.76, 0.97), (0.93, 0.97, 1.0), 0.25 + v * 0.75 + 0.0 * u)
    sky = sky + (np.clip(clouds * 0.35 - 0.1, 0, 1) * 0.5)[..., None] * (1 - sky)
    waves = np.arange(1, 14)[:, None]
    strength = rng.standard_normal((2, 13, 1)) / waves**1.2
    phase = rng.random((2, 13, 1)) * 2 * np.pi
    ridge, crowns = (strength * np.sin(2 * np.pi * waves * u[0] + phase)).sum(axis=1)
    far = (v > 0.66 + 0.03 * ridge)[..., None]
    near = (v > 0.80 + 0.03 * crowns + 0.012 * np.abs(np.sin(2 * np.pi * 17 * u)))[..., None]
    hill = _mix((0.52, 0.66, 0.72), (0.66, 0.78, 0.74), (v - 0.6) * 4 + 0.1 * clouds)
    tree = _mix((0.20, 0.36, 0.17), (0.50, 0.64, 0.32), 0.45 + 0.25 * noise(rng, 0.9))
    return np.where(near, tree, np.where(far, hill, sky))


def paint(painter: Painter, rng: np.random.Generator) -> np.ndarray:
    """Return the picture as a texture [SIZE, SIZE, 4] uint8, opaque."""
    image = np.full((SIZE, SIZE, 4), 255, np.uint8)
    image[..., :3] = np.rint(np.clip(painter(rng), 0, 1) * 255)
    return image
