"""The finishes of an apartment: matching materials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from gym_batchnav.homes import textures
from gym_batchnav.homes.textures import Painter
from gym_batchnav.scene.color import srgb_to_linear
from gym_batchnav.scene.scene import LINEAR, OPAQUE, REPEAT, Materials

_Option = TypeVar("_Option")


@dataclass(frozen=True, slots=True)
class Finish:
    """A colour over a texture of a real size.

    Attributes:
        color: sRGB, ``"#rrggbb"``.
        painter: Paints the texture; None for a flat colour.
        metres: Side of the square that one repeat of the texture covers.
        grain: The texture runs along u and is laid along the longer side of every board.
    """

    color: str
    painter: Painter | None = None
    metres: float = 1.0
    grain: bool = False

    @property
    def linear(self) -> np.ndarray:
        """[4] float32, linear RGBA."""
        srgb = np.array([int(self.color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        return np.append(srgb_to_linear(srgb), 1.0).astype(np.float32)


_OAK = "#d3a56c"
_WALNUT = "#85583a"
_WHITE = "#f1efea"
_BEECH = "#e0bd8c"
_WOODS = ((_OAK, _WALNUT), (_BEECH, _WHITE), (_WALNUT, _OAK), (_OAK, _WHITE), (_WALNUT, _WHITE))
_WALLS = ("#f2ede2", "#e9e4d6", "#e4ebe6", "#e6e3ec", "#f3e6d3", "#dfe8ee", "#efe2dc")
_ACCENTS = ("#7f9a8a", "#8aa0b5", "#c58f6f", "#b8a88f", "#6f8792", "#a9898f", "#93a06f", "#d0ae73")
_CLOTHS = ("#5f7688", "#8b8378", "#a7583f", "#4f6b57", "#b59a77", "#6b5a78", "#c4b8a6", "#3f5068", "#95a487", "#b5763f")
_BRIGHT = ("#d9a441", "#b84a3a", "#3f7f8c", "#e3d9c6", "#7a9e6a", "#c97b84", "#47597a")
_RUGS = ("#c9b79c", "#a8543f", "#5e7a8c", "#8f8f86", "#d6c7a8", "#6d7f64")
_GLAZES = ("#ffffff", "#cfe3e6", "#dfe8d8", "#c8d6e6", "#f0e2d2")
_SPLASHES = ("#ffffff", "#e9f0ea", "#dfe7ef", "#f4e8d6")
_DOORS = ("#f6f4ee", _OAK, "#e9e3d6")
_FRONTS = ("#f3f1ea", "#5f7a72", "#46586b", "#d9cfbd", "#b7c4bd", "#efe9dc")
_BEDDINGS = ("#f4f1ea", "#e8e4da", "#eef0f2")
_CURTAINS = ("#f0e9dc", "#c9d2cf", "#d8c3a8", "#a9b7c4", "#e6dfe8", "#c9a58f")
_POTS = ("#b9674a", "#e9e5dc", "#4d5a63", "#c7b59a")
_FLOORS = (
    Finish("#ffffff", textures.oak_planks, 1.2),
    Finish("#ffffff", textures.walnut_planks, 1.2),
    Finish("#ffffff", textures.grey_planks, 1.2),
    Finish("#ffffff", textures.herringbone, 1.12),
)
_KITCHEN_FLOORS = (Finish("#ffffff", textures.floor_tiles, 1.0), Finish("#f6f2ea", textures.checker_tiles, 1.2))
# The same in every home.
_SHELL = {
    "ceiling": Finish("#fbfaf7", textures.plaster, 2.5),
    "outside": Finish("#cfc9bf", textures.plaster, 2.5),
    "trim": Finish("#fbfaf6"),
}
_HARD = {
    "metal": Finish("#dfe1e4", textures.brushed_metal, 0.5, grain=True),
    "chrome": Finish("#c3c8cd"),
    "black": Finish("#1d1e20"),
    "grey": Finish("#6f7276"),
    "screen": Finish("#0d1116"),
    "ceramic": Finish("#f7f8f7"),
    "glass": Finish("#b9cbd3"),
    "mirror": Finish("#c4d3da"),
    "lamp": Finish("#fff6df"),
    "brass": Finish("#c9a45c"),
}
_SMALL = {
    "soil": Finish("#3b2c22"),
    "leaf": Finish("#ffffff", textures.leaf, 1.0),
    "leaf2": Finish("#c9e0a8", textures.leaf, 1.0),
    "books": Finish("#ffffff", textures.book_spines, 1.0),
    "paper": Finish("#efe9dc"),
    "picture": Finish("#ffffff", textures.pictures, 1.0),
}


class _Palette(NamedTuple):
    """Properties that several finishes of one home share; the home uses the first colours of each list."""

    floor: Finish
    accents: tuple[Finish, ...]
    woods: tuple[str, str]
    tiles: Painter
    stone: Painter
    walls: list[str]
    cloths: list[str]
    bright: list[str]
    rugs: list[str]


def choose_finishes(rng: np.random.Generator) -> dict[str, Finish]:
    """Return the finishes of an apartment, by purpose."""
    palette = _draw_palette(rng)
    return {**_surfaces(rng, palette), **_furniture(rng, palette), **_HARD, **_decoration(rng, palette)}


def _pick(rng: np.random.Generator, options: Sequence[_Option]) -> _Option:
    return options[int(rng.integers(len(options)))]


def _draw_palette(rng: np.random.Generator) -> _Palette:
    """Draw the properties that several finishes share."""

    def mix(colors: Sequence[str]) -> list[str]:
        return [colors[i] for i in rng.permutation(len(colors))]

    return _Palette(
        floor=_FLOORS[int(rng.choice(4, p=[0.4, 0.2, 0.15, 0.25]))],
        accents=(
            Finish("#ffffff", textures.brick, 0.9),
            Finish(_pick(rng, _ACCENTS), textures.wallpaper, 0.8),
            Finish(_pick(rng, _ACCENTS), textures.plaster, 2.5),
        ),
        woods=_pick(rng, _WOODS),
        tiles=_pick(rng, (textures.wall_tiles, textures.subway_tiles)),
        stone=_pick(rng, (textures.marble, textures.granite)),
        walls=mix(_WALLS),
        cloths=mix(_CLOTHS),
        bright=mix(_BRIGHT),
        rugs=mix(_RUGS),
    )


def _surfaces(rng: np.random.Generator, palette: _Palette) -> dict[str, Finish]:
    """Choose the finishes of floors, walls, ceilings, doors and the view through windows."""
    glaze = _pick(rng, _GLAZES)
    painted = [Finish(color, textures.plaster, 2.5) for color in palette.walls]
    return {
        "floor": palette.floor,
        "floor_kitchen": palette.floor if rng.random() < 0.35 else _pick(rng, _KITCHEN_FLOORS),
        "floor_bath": Finish("#e8ebec", textures.floor_tiles, 0.6),
        "wall_living": painted[0],
        "wall_kitchen": painted[1],
        "wall_bedroom": painted[2],
        "wall_hall": painted[0],
        "wall_study": painted[3],
        "wall_stairs": painted[0],
        "wall_bath": Finish(glaze, palette.tiles, 0.7),
        "wall_accent": palette.accents[int(rng.choice(3, p=[0.3, 0.35, 0.35]))],
        "wall_accent_bedroom": _pick(rng, palette.accents[1:]),
        "splash": Finish(_pick(rng, _SPLASHES), palette.tiles, 0.6),
        **_SHELL,
        "door": Finish(_pick(rng, _DOORS), textures.wood_grain, 0.9, grain=True),
        "view": Finish("#ffffff", textures.outdoors, 2.6),
    }


def _furniture(rng: np.random.Generator, palette: _Palette) -> dict[str, Finish]:
    """Choose the finishes of wood, stone and cloth."""
    return {
        "wood": Finish(palette.woods[0], textures.wood_grain, 0.9, grain=True),
        "wood2": Finish(palette.woods[1], textures.wood_grain, 0.9, grain=True),
        "front": Finish(_pick(rng, _FRONTS)),
        "stone": Finish("#f4f2ee", palette.stone, 0.8),
        "sofa": Finish(palette.cloths[0], textures.weave, 0.35),
        "chair": Finish(palette.cloths[1], textures.weave, 0.35),
        "bedding": Finish(_pick(rng, _BEDDINGS), textures.weave, 0.5),
        "blanket": Finish(palette.cloths[2], textures.weave, 0.5),
        "curtain": Finish(_pick(rng, _CURTAINS), textures.weave, 0.6),
        "cushion": Finish(palette.bright[0], textures.weave, 0.35),
        "cushion2": Finish(palette.bright[1], textures.carpet, 0.45),
        "rug": Finish(palette.rugs[0], textures.carpet, 0.9),
        "rug2": Finish(palette.rugs[1], textures.weave, 0.25),
        "rug3": Finish(palette.rugs[2], textures.carpet, 0.5),
        "towel": Finish(palette.bright[2], textures.weave, 0.3),
    }


def _decoration(rng: np.random.Generator, palette: _Palette) -> dict[str, Finish]:
    """Choose the finishes of plants, books, pictures and small objects."""
    return {
        "pot": Finish(_pick(rng, _POTS)),
        **_SMALL,
        "bright": Finish(palette.bright[3]),
        "bright2": Finish(palette.bright[4]),
    }


def make_materials(finishes: Sequence[Finish], seed: int) -> tuple[Materials, tuple[np.ndarray, ...]]:
    """Return the materials, one row per finish, and their textures.

    A texture is keyed by its painter alone: two finishes with one painter show one picture in two colours.
    """
    painters = list(dict.fromkeys(finish.painter for finish in finishes if finish.painter))
    pictures = tuple(
        textures.paint(painter, np.random.default_rng([seed, 1000 + i])) for i, painter in enumerate(painters)
    )
    count = len(finishes)
    materials = Materials(
        base_color=np.stack([finish.linear for finish in finishes]),
        texture=np.array([painters.index(f.painter) if f.painter else -1 for f in finishes], np.int32),
        alpha_mode=np.full(count, OPAQUE, np.uint8),
        alpha_cutoff=np.full(count, 0.5, np.float32),
        double_sided=np.ones(count, bool),
        wrap=np.full((count, 2), REPEAT, np.uint8),
        filter=np.full(count, LINEAR, np.uint8),
    )
    return materials, pictures
