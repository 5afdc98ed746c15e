"""Finishes: what the surfaces of one apartment are made of, chosen together so that they go with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gym_batchnav.color import srgb_to_linear
from gym_batchnav.scene.generate import textures
from gym_batchnav.scene.generate.textures import Painter
from gym_batchnav.scene.mesh import OPAQUE, REPEAT, Materials


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


_OAK, _WALNUT, _WHITE, _BEECH = "#d3a56c", "#85583a", "#f1efea", "#e0bd8c"
_WALLS = ("#f2ede2", "#e9e4d6", "#e4ebe6", "#e6e3ec", "#f3e6d3", "#dfe8ee", "#efe2dc")
_ACCENTS = ("#7f9a8a", "#8aa0b5", "#c58f6f", "#b8a88f", "#6f8792", "#a9898f", "#93a06f", "#d0ae73")
_CLOTHS = ("#5f7688", "#8b8378", "#a7583f", "#4f6b57", "#b59a77", "#6b5a78", "#c4b8a6", "#3f5068", "#95a487", "#b5763f")
_BRIGHT = ("#d9a441", "#b84a3a", "#3f7f8c", "#e3d9c6", "#7a9e6a", "#c97b84", "#47597a")
_RUGS = ("#c9b79c", "#a8543f", "#5e7a8c", "#8f8f86", "#d6c7a8", "#6d7f64")


def choose_finishes(rng: np.random.Generator) -> dict[str, Finish]:
    """The finishes of an apartment, by what they are for."""

    def pick(options: Sequence[str]) -> str:
        return options[int(rng.integers(len(options)))]

    floors = (
        Finish("#ffffff", textures.oak_planks, 1.2),
        Finish("#ffffff", textures.walnut_planks, 1.2),
        Finish("#ffffff", textures.grey_planks, 1.2),
        Finish("#ffffff", textures.herringbone, 1.12),
    )
    floor = floors[int(rng.choice(4, p=[0.4, 0.2, 0.15, 0.25]))]
    kitchen_floor = (Finish("#ffffff", textures.floor_tiles, 1.0), Finish("#f6f2ea", textures.checker_tiles, 1.2))
    accent = (
        Finish("#ffffff", textures.brick, 0.9),
        Finish(pick(_ACCENTS), textures.wallpaper, 0.8),
        Finish(pick(_ACCENTS), textures.plaster, 2.5),
    )
    woods = [(_OAK, _WALNUT), (_BEECH, _WHITE), (_WALNUT, _OAK), (_OAK, _WHITE), (_WALNUT, _WHITE)][
        int(rng.integers(5))
    ]
    tiles = (textures.wall_tiles, textures.subway_tiles)[int(rng.integers(2))]
    stone = (textures.marble, textures.granite)[int(rng.integers(2))]
    walls = rng.permutation(len(_WALLS))
    cloths = rng.permutation(len(_CLOTHS))
    bright = rng.permutation(len(_BRIGHT))
    rugs = rng.permutation(len(_RUGS))
    bath = pick(("#ffffff", "#cfe3e6", "#dfe8d8", "#c8d6e6", "#f0e2d2"))
    return {
        "floor": floor,
        "floor_kitchen": floor if rng.random() < 0.35 else kitchen_floor[int(rng.integers(2))],
        "floor_bath": Finish("#e8ebec", textures.floor_tiles, 0.6),
        "wall_living": Finish(_WALLS[walls[0]], textures.plaster, 2.5),
        "wall_kitchen": Finish(_WALLS[walls[1]], textures.plaster, 2.5),
        "wall_bedroom": Finish(_WALLS[walls[2]], textures.plaster, 2.5),
        "wall_hall": Finish(_WALLS[walls[0]], textures.plaster, 2.5),
        "wall_study": Finish(_WALLS[walls[3]], textures.plaster, 2.5),
        "wall_stairs": Finish(_WALLS[walls[0]], textures.plaster, 2.5),
        "wall_bath": Finish(bath, tiles, 0.7),
        "wall_accent": accent[int(rng.choice(3, p=[0.3, 0.35, 0.35]))],
        "wall_accent_bedroom": accent[1 + int(rng.integers(2))],
        "splash": Finish(pick(("#ffffff", "#e9f0ea", "#dfe7ef", "#f4e8d6")), tiles, 0.6),
        "ceiling": Finish("#fbfaf7", textures.plaster, 2.5),
        "outside": Finish("#cfc9bf", textures.plaster, 2.5),
        "trim": Finish("#fbfaf6"),
        "door": Finish(pick(("#f6f4ee", _OAK, "#e9e3d6")), textures.wood_grain, 0.9, grain=True),
        "view": Finish("#ffffff", textures.outdoors, 2.6),
        "wood": Finish(woods[0], textures.wood_grain, 0.9, grain=True),
        "wood2": Finish(woods[1], textures.wood_grain, 0.9, grain=True),
        "front": Finish(pick(("#f3f1ea", "#5f7a72", "#46586b", "#d9cfbd", "#b7c4bd", "#efe9dc"))),
        "stone": Finish("#f4f2ee", stone, 0.8),
        "sofa": Finish(_CLOTHS[cloths[0]], textures.weave, 0.35),
        "chair": Finish(_CLOTHS[cloths[1]], textures.weave, 0.35),
        "bedding": Finish(pick(("#f4f1ea", "#e8e4da", "#eef0f2")), textures.weave, 0.5),
        "blanket": Finish(_CLOTHS[cloths[2]], textures.weave, 0.5),
        "curtain": Finish(
            pick(("#f0e9dc", "#c9d2cf", "#d8c3a8", "#a9b7c4", "#e6dfe8", "#c9a58f")), textures.weave, 0.6
        ),
        "cushion": Finish(_BRIGHT[bright[0]], textures.weave, 0.35),
        "cushion2": Finish(_BRIGHT[bright[1]], textures.carpet, 0.45),
        "rug": Finish(_RUGS[rugs[0]], textures.carpet, 0.9),
        "rug2": Finish(_RUGS[rugs[1]], textures.weave, 0.25),
        "rug3": Finish(_RUGS[rugs[2]], textures.carpet, 0.5),
        "towel": Finish(_BRIGHT[bright[2]], textures.weave, 0.3),
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
        "pot": Finish(pick(("#b9674a", "#e9e5dc", "#4d5a63", "#c7b59a"))),
        "soil": Finish("#3b2c22"),
        "leaf": Finish("#ffffff", textures.leaf, 1.0),
        "leaf2": Finish("#c9e0a8", textures.leaf, 1.0),
        "books": Finish("#ffffff", textures.book_spines, 1.0),
        "paper": Finish("#efe9dc"),
        "picture": Finish("#ffffff", textures.pictures, 1.0),
        "bright": Finish(_BRIGHT[bright[3]]),
        "bright2": Finish(_BRIGHT[bright[4]]),
    }


def make_materials(finishes: Sequence[Finish], seed: int) -> tuple[Materials, tuple[np.ndarray, ...]]:
    """Materials, one row a finish, and the textures that they share.

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
    )
    return materials, pictures
