"""Furniture with recognisable parts: a table of parts in ``furniture.json``, and the few shapes that need code.

Every piece stands on y = 0, centred on x = z = 0, its front towards +z, its back towards the wall. Sizes are in metres.
Pieces that hang on a wall are modelled at their height.

A piece of the table has options with defaults (null for those that must be passed) and parts, which are added in order:

- ``[shape, argument, ..., {keyword: value}]``: a method of ``Builder``, or one of the shapes below;
- ``[piece, {option: value}]``: another piece;
- ``["let", {name: value}]``: names for values;
- ``["each", {name: values}, parts]``: the parts once for every value; several names are nested loops;
- ``["if", value, parts, other parts]``.

A string that begins with ``=`` is a formula of options, names, ``rng`` and ``level`` (of detail).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from types import CodeType
from typing import Any

import numpy as np

from gym_batchnav.homes import shapes
from gym_batchnav.homes.build import COARSEST, Builder
from gym_batchnav.homes.layout import Prototype
from gym_batchnav.homes.walls import door_leaf

Spot = tuple[float, float, float]
_GOODS = ("bright", "bright2", "paper", "cushion", "cushion2", "towel", "blanket", "wood2", "front")
_NAMES: dict[str, Any] = {
    **{name: getattr(np, name) for name in ("pi", "cos", "sin", "arctan2", "ceil")},
    "coarsest": COARSEST,
    "worktop": 0.91,  # metres, height of the upper side of kitchen worktops
    "depth_of_units": 0.62,  # metres, of a kitchen unit with its worktop
    "step_height": 0.18,  # metres, of the highest step of a platform
}


class Style:
    """The choices one apartment makes once: which chair, which lamp, which arms.

    Args:
        rng: Random stream.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        def pick(*options: str) -> str:
            return options[int(rng.integers(len(options)))]

        self.chair = pick("slats", "padded", "shell")
        self.table = pick("oblong", "oblong", "round")
        self.coffee = pick("oblong", "round")
        self.arms = pick("block", "slim")
        self.lamp = pick("pendant", "disc")
        self.open_shelf = bool(rng.random() < 0.4)


def prototype(name: str, **options: Any) -> Prototype:
    """Return the prototype of a piece with its options, which together are its key."""
    key = name + "".join(f":{option}={value}" for option, value in options.items())
    return Prototype(key, lambda b: build(b, name, **options))


def build(b: Builder, name: str, **options: Any) -> None:
    """Build a piece with options other than its defaults."""
    if name in _SHAPES:
        _SHAPES[name](b, **options)
        return
    piece = _table()[name]
    scope = {**_NAMES, "rng": b.rng, "level": b.level}
    scope |= {option: _value(default, scope) for option, default in piece.get("options", {}).items()} | options
    _add(b, piece["parts"], scope)


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files(__package__).joinpath("furniture.json").read_text("utf-8"))
    return table


@cache
def _formula(text: str) -> CodeType:
    return compile(text, "furniture.json", "eval")


def _value(value: Any, scope: Mapping[str, Any]) -> Any:
    """Return a value of the table with its formulas computed."""
    if isinstance(value, str) and value.startswith("="):
        return eval(_formula(value[1:]), dict(scope))
    if isinstance(value, list):
        return [_value(item, scope) for item in value]
    if isinstance(value, dict):
        return {name: _value(item, scope) for name, item in value.items()}
    return value


def _add(b: Builder, parts: list[Any], scope: dict[str, Any]) -> None:
    """Add parts of the table; ``scope`` holds the names that their formulas may use."""
    for kind, *values in parts:
        if kind == "let":
            for names, value in values[0].items():
                _assign(scope, names, _value(value, scope))
        elif kind == "each":
            _repeat(b, list(values[0].items()), values[1], scope)
        elif kind == "if":
            condition, chosen, *others = values
            _add(b, chosen if _value(condition, scope) else [part for other in others for part in other], scope)
        else:
            arguments = _value(values, scope)
            keywords = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
            if kind in _table():
                build(b, kind, **keywords)
            elif kind in _SHAPES:
                _SHAPES[kind](b, *arguments, **keywords)
            else:
                getattr(b, kind)(*arguments, **keywords)


def _repeat(b: Builder, loops: list[tuple[str, Any]], parts: list[Any], scope: dict[str, Any]) -> None:
    """Add parts once for every combination of the values of loops, the last of which changes fastest."""
    if not loops:
        _add(b, parts, scope)
        return
    (names, values), *inner = loops
    for value in _value(values, scope):
        _assign(scope, names, value)
        _repeat(b, inner, parts, scope)


def _assign(scope: dict[str, Any], names: str, value: Any) -> None:
    """Give a value to one name, or its items to several, which are separated by commas."""
    if "," in names:
        scope.update(zip(names.split(", "), value, strict=True))
    else:
        scope[names] = value


def leaf(b: Builder, finish: str, root: Spot, tip: Spot, width: float, sag: float) -> None:
    """Build a leaf from its root to its tip, bent downwards by ``sag`` metres."""
    steps = b.segments(3, 2)
    t = np.linspace(0, 1, steps + 1)
    start = np.array(root)
    end = np.array(tip)
    line = start + t[:, None] * (end - start)
    line[:, 1] += sag * 4 * t * (1 - t)
    aside = np.cross(end - start, [0, 1.0, 0])
    aside /= max(float(np.linalg.norm(aside)), 1e-6)
    half = width / 2 * np.maximum(np.sin(np.pi * t**0.75), 0.06)
    edges = np.stack([line + half[:, None] * aside, line - half[:, None] * aside])
    edges[:, :, 1] -= 0.25 * half
    points = np.stack([edges[0], line, edges[1]])
    shape = shapes.sheet(points)
    uvs = np.stack([np.tile(t, 3), np.repeat([0.98, 0.5, 0.02], steps + 1)], axis=1)
    b.add(finish, shape._replace(uvs=uvs), shade=np.tile(0.6 + 0.4 * t, 3))


def fill_shelf(b: Builder, width: float, height: float, at: Spot) -> None:
    """Build groups of books along one shelf, sometimes with a pot or a box between them."""
    x = -width / 2
    end = width / 2
    coarse = b.level < 0.45
    while x < end - 0.10:
        kind = float(b.rng.random())
        if kind < 0.72:
            count = int(b.rng.integers(4, 12))
            x = _books(b, x, min(end, x + 0.6), height, count, at, coarse)
        elif kind < 0.82:
            build(b, "vase", at=(at[0] + x + 0.08, at[1], at[2]), height=min(0.17, 0.5 * height))
            x += 0.18
        elif kind < 0.92:
            finish = ("bright", "bright2", "wood2")[int(b.rng.integers(3))]
            b.box(finish, (0.20, 0.16, 0.22), (at[0] + x + 0.12, at[1], at[2] + 0.01), 0.004)
            x += 0.25
        else:
            x += 0.12


def _books(b: Builder, x: float, end: float, height: float, count: int, at: Spot, coarse: bool) -> float:
    """Build a group of standing books from x on and return its end; coarse books are one block per group."""
    start = x
    tallest = 0.0
    sizes = []
    for _ in range(count):
        thick, tall, deep = b.rng.uniform((0.018, 0.60, 0.15), (0.045, 0.92, 0.21)).tolist()
        spine = int(b.rng.integers(32))
        offset = b.rng.random(2)
        if x + thick > end:
            break
        tallest = max(tallest, tall)
        sizes.append((x, thick, tall * height, deep, spine, offset[0]))
        x += thick
    if coarse and sizes:
        wide = x - start
        shape = shapes.box((wide, 0.9 * tallest * height, 0.17))
        across = (shape.uvs[:, :1] + wide / 2) / 0.9 + start
        down = np.clip(1 + shape.uvs[:, 1:] / (0.9 * tallest * height), 0.02, 0.98)
        spot = (at[0] + start + wide / 2, at[1], at[2] + 0.015)
        b.add("books", shape._replace(uvs=np.concatenate([across, down], axis=1)), spot)
    elif sizes:
        b.add("books", _standing(np.array(sizes), at))
    return x


def _standing(books: np.ndarray, at: Spot) -> shapes.Shape:
    """Make books [N, 6] side by side, without undersides and backs, which are never visible.

    The columns are where a book starts along x, its thickness, height and depth, metres, which of 32 spines it shows,
    and by how much, 0 to 1, it stands forward.
    """
    start, thick, tall, deep, spine, forward = books[:, :, None].transpose(1, 0, 2)
    unit = shapes.box((1, 1, 1))
    seen = np.isin(np.arange(24) // 4, [0, 1, 2, 4])  # vertices of both sides, the top and the spine
    foot = np.stack([at[0] + start + thick / 2, 0 * start + at[1], at[2] + 0.10 - deep / 2 + 0.01 * forward], axis=-1)
    vertices = unit.vertices[seen] * np.stack([thick - 0.001, tall, deep], axis=-1) + foot
    wide = np.concatenate([deep, deep, thick - 0.001, thick - 0.001], axis=1).repeat(4, axis=1)
    high = np.concatenate([tall, tall, deep, tall], axis=1).repeat(4, axis=1)
    across = (spine + 0.02 + 0.96 * (wide * unit.uvs[seen, 0] / thick + 0.5)) / 32
    down = np.clip(1 + high * unit.uvs[seen, 1] / tall, 0.02, 0.98)
    corner = 4 * np.arange(4 * len(books))[:, None, None] + np.array([[0, 1, 2], [0, 2, 3]])
    uvs = np.stack([across, down], axis=-1)
    return shapes.Shape(vertices.reshape(-1, 3), uvs.reshape(-1, 2), corner.reshape(-1, 3))


def round_rug(b: Builder, radius: float = 0.9, finish: str = "rug") -> None:
    """Build a round rug 4 mm thick."""
    shape = shapes.lathe([(radius, 0), (radius - 0.01, 0.004), (0, 0.004)], b.around(36))
    b.add(finish, shape._replace(uvs=shape.vertices[:, [0, 2]]))


def arc_lamp(b: Builder) -> None:
    """Build a lamp that hangs from a long bow."""
    steps = b.segments(9, 5)
    angle = np.linspace(0, np.pi * 0.86, steps + 1)
    path = np.stack([-0.32 + 0.30 * (1 - np.cos(angle)), 1.15 + 0.68 * np.sin(angle), 0 * angle], axis=1)
    b.lathe("stone", [(0.15, 0), (0.15, 0.05), (0, 0.05)], (-0.32, 0, 0), fine=18)
    b.bar("chrome", [(-0.32, 0.04, 0), *path], 0.012, 6, 3)
    tip = path[-1]
    b.lathe("brass", [(0.15, -0.13), (0.14, -0.06), (0.09, 0.0), (0.0, 0.02)], (tip[0], tip[1], 0), fine=18)


def curtain(b: Builder, width: float = 0.4, height: float = 2.3) -> None:
    """Build one wing of a curtain in folds, from 3 cm above the floor."""
    folds = width / 0.11
    columns = b.segments(int(5 * folds), int(2 * folds) + 1)
    s = np.linspace(0, 1, columns + 1)
    rows = np.array([0.03, 0.55 * height, height])
    spread = np.array([1.0, 0.92, 0.9])
    wave = np.sin(2 * np.pi * folds * s)
    x = (s - 0.5) * width * spread[:, None]
    z = 0.035 * wave * np.array([1.0, 0.9, 0.7])[:, None]
    points = np.stack(np.broadcast_arrays(x, rows[:, None], z), axis=-1)
    shade = 0.86 + 0.14 * np.tile(wave, 3)
    b.add("curtain", shapes.sheet(points), shade=shade)


def goods(b: Builder, length: float, height: float, at: tuple[float, float]) -> None:
    """Build the goods of one shelf, blocks with gaps between them."""
    x = -length / 2
    while x < length / 2 - 0.15:
        width, tall, gap, kind = b.rng.random(4).tolist()
        width = min(0.22 + 0.5 * width, length / 2 - x)
        if gap < 0.85:
            finish = _GOODS[int(kind * len(_GOODS))]
            b.box(finish, (width - 0.03, height * (0.45 + 0.5 * tall), 0.30), (x + width / 2, at[0], at[1]))
        x += width


def hung_clothes(b: Builder, length: float) -> None:
    """Build clothes on hangers along a rail 1.45 m high."""
    x = -length / 2 + 0.12
    while x < length / 2 - 0.1:
        long, kind, step = b.rng.random(3).tolist()
        tall = 0.65 + 0.4 * long
        b.box(_GOODS[int(kind * len(_GOODS))], (0.05, tall, 0.42), (x, 1.42 - tall, 0), 0.01)
        x += 0.09 + 0.14 * step


def ball(b: Builder, finish: str, radius: float, fine: int) -> None:
    """Build a ball that lies on the floor."""
    angles = np.linspace(0, np.pi, b.segments(fine, 4))
    profile = [(max(radius * np.sin(a), 0.0), radius - radius * np.cos(a)) for a in angles]
    b.lathe(finish, [(0.0, profile[0][1]), *profile[1:-1], (0.0, profile[-1][1])])


def bowl(b: Builder, finish: str, half: tuple[float, float]) -> None:
    """Build the bowl of a washbasin with half its width and depth; its rim is 0.855 m high."""
    steps = b.segments(4, 2)
    t = np.linspace(-1, 1, 2 * steps + 1)
    x, z = np.meshgrid(t, t)
    depth = 0.79 + 0.065 * np.maximum(x**4, z**4) - 0.02 * (1 - x**2) * (1 - z**2)
    points = np.stack([x * half[0], depth, 0.03 - z * half[1]], axis=-1)
    b.add(finish, shapes.sheet(points), shade=0.82 + 0.18 * np.maximum(x**4, z**4).ravel())


def tub(b: Builder, finish: str, length: float, width: float, height: float, rim: float) -> None:
    """Build the inside of a bath tub whose rim is ``rim`` metres wide."""
    steps = b.segments(5, 3)
    t = np.linspace(-1, 1, 2 * steps + 1)
    x, z = np.meshgrid(t, t)
    wall = np.maximum(np.abs(x) ** 8, np.abs(z) ** 6)
    across = x * (length / 2 - rim) * (0.90 + 0.10 * wall)
    along = -z * (width / 2 - rim) * (0.86 + 0.14 * wall)
    points = np.stack([across, 0.14 + (height - 0.16) * wall, along], axis=-1)
    b.add(finish, shapes.sheet(points), shade=(0.72 + 0.28 * wall).ravel())


def ramp(b: Builder, finish: str, foot: tuple[float, float], size: Spot) -> None:
    """Build a ramp that falls towards +x from the corner ``foot`` (x, z), of a length, a height and a breadth."""
    left, back = foot
    length, height, broad = size
    right = left + length
    corners = np.array([[left, 0, 0], [right, 0, 0], [right, 0.01, 0], [left, height, 0]], np.float64)
    near = corners + np.array([0, 0, back + broad])
    far = corners + np.array([0, 0, back])
    for a, c, d, e in (
        (near[0], near[1], near[2], near[3]),
        (far[1], far[0], far[3], far[2]),
        (near[3], near[2], far[2], far[3]),
    ):
        b.add(finish, shapes.sheet(np.array([[a, c], [e, d]])))


_SHAPES: dict[str, Callable[..., None]] = {
    shape.__name__: shape
    for shape in (
        *(leaf, fill_shelf, round_rug, arc_lamp, curtain, goods, hung_clothes, ball, bowl, tub, ramp, door_leaf),
    )
}
