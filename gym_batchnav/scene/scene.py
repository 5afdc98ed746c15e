"""The Scene record: the visible content of a scene as plain arrays in world space."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.system.wording import counted

OPAQUE, MASK = range(2)  # alpha modes
REPEAT, CLAMP, MIRROR = range(3)  # wrapping of textures
LINEAR, NEAREST = range(2)  # filters of textures
_MATERIAL_WIDTHS = {"base_color": (4,), "wrap": (2,)}  # of arrays with more than a number per material
_UNNAMED = 2**31  # numbers of objects in a scene without a list of them have no other limit


@dataclass(frozen=True, slots=True, eq=False)
class Materials:
    """The surfaces of a scene, one row per material.

    A material without a texture has ``texture == -1``. A material with ``alpha_mode == MASK`` is visible only where its
    alpha (texture x factor) reaches ``alpha_cutoff``. glTF's BLEND is loaded as MASK with a cutoff of 0.5, since the
    renderers do not support transparency.
    """

    base_color: np.ndarray  # [M, 4] float32, linear RGBA factor
    texture: np.ndarray  # [M] int32, row in Scene.textures, -1 for none
    alpha_mode: np.ndarray  # [M] uint8, OPAQUE or MASK
    alpha_cutoff: np.ndarray  # [M] float32
    double_sided: np.ndarray  # [M] bool
    wrap: np.ndarray  # [M, 2] uint8, REPEAT, CLAMP or MIRROR along u and v
    filter: np.ndarray  # [M] uint8, LINEAR or NEAREST, between the texels of a magnified texture

    def __len__(self) -> int:
        """Return the number of materials."""
        return len(self.texture)


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A textured triangle mesh in world space: Y up, metres, counter-clockwise fronts.

    Nodes that repeat a mesh are flattened, which makes the ray tracer faster. ``objects[k]`` is the object with
    the semantic id ``k + 1``; id 0 means no object.
    """

    name: str
    vertices: np.ndarray  # [V, 3] float32, metres
    triangles: np.ndarray  # [T, 3] int32, rows of vertices
    triangle_material: np.ndarray  # [T] int32, row in materials
    triangle_object: np.ndarray  # [T] int32, semantic id, 1 and up; 0 for no object
    materials: Materials
    uvs: np.ndarray | None = None  # [V, 2] float32, v = 0 at the top row of the image (glTF's way)
    colors: np.ndarray | None = None  # [V, 4] uint8, linear RGBA that multiplies the base colour
    textures: tuple[np.ndarray, ...] = ()  # each [H, W, 4] uint8, sRGB with linear alpha, row 0 at the top
    objects: tuple[SceneObject, ...] = ()  # name and category of every semantic id, from id 1
    navmesh: NavMesh | None = None  # the navmesh that came with the file
    warnings: tuple[str, ...] = ()  # content that the loader left out or guessed, one sentence each
    metadata: dict[str, object] = field(default_factory=dict)  # facts of the loader (up, scale, files) or the generator
    unsimplified: Callable[[], Scene] | None = None  # makes it without simplification or damage, for navmeshes

    def __repr__(self) -> str:
        """Return the name and the counts in one line."""
        size = " x ".join(f"{length:.1f}" for length in np.ptp(self.bounds, axis=0)) if len(self.vertices) else "0"
        parts = (("triangle", self.triangles), ("object", self.objects), ("texture", self.textures))
        counts = ", ".join(counted(len(items), noun) for noun, items in parts)
        return f"Scene({self.name!r}, {size} m, {counts})"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Show the scene in notebooks, from above and with its counts."""
        from gym_batchnav.viz.notebook import scene_bundle

        return scene_bundle(self, include, exclude)

    def check(self) -> None:
        """Raise ValueError unless arrays have their shapes and refer to rows that exist, as kernels rely on."""
        num_vertices, num_triangles = len(self.vertices), len(self.triangles)
        shapes: dict[str, tuple[int, ...]] = {
            "vertices": (num_vertices, 3),
            "uvs": (num_vertices, 2),
            "colors": (num_vertices, 4),
            "triangles": (num_triangles, 3),
            "triangle_material": (num_triangles,),
            "triangle_object": (num_triangles,),
        }
        arrays = {name: getattr(self, name) for name in shapes}
        for column in fields(Materials):
            name = f"materials.{column.name}"
            arrays[name] = getattr(self.materials, column.name)
            shapes[name] = (len(self.materials), *_MATERIAL_WIDTHS.get(column.name, ()))
        for name, array in arrays.items():
            if array is not None and array.shape != shapes[name]:
                raise ValueError(f"scene {self.name!r}: {name} has the shape {array.shape}: pass {shapes[name]}")
        for name, rows, least, count in (
            ("triangles", self.triangles, 0, num_vertices),
            ("triangle_material", self.triangle_material, 0, len(self.materials)),
            ("triangle_object", self.triangle_object, 0, len(self.objects) + 1 if self.objects else _UNNAMED),
            ("materials.texture", self.materials.texture, -1, len(self.textures)),
        ):
            if rows.size and (rows.min() < least or rows.max() >= count):
                raise ValueError(
                    f"scene {self.name!r}: {name} has values from {rows.min()} to {rows.max()}: pass numbers "
                    f"of at least {least} and below {count}"
                )

    @property
    def bounds(self) -> np.ndarray:
        """[2, 3] float32, metres: the smallest and the largest corner."""
        return np.stack([self.vertices.min(axis=0), self.vertices.max(axis=0)])

    @property
    def object_boxes(self) -> np.ndarray:
        """[O, 2, 3] float32, metres: the bounding box of every object, NaN for one without triangles.

        Row k belongs to ``objects[k]``. It is computed at every access.
        """
        boxes = np.full((len(self.objects), 2, 3), np.nan, np.float32)
        order = np.argsort(self.triangle_object, kind="stable")
        ids, first = np.unique(self.triangle_object[order], return_index=True)
        if not len(ids):
            return boxes
        corners = [self.vertices[self.triangles[order, corner]] for corner in range(3)]
        low = np.minimum.reduceat(np.minimum.reduce(corners), first)
        high = np.maximum.reduceat(np.maximum.reduce(corners), first)
        kept = (ids > 0) & (ids <= len(boxes))  # a scene may have ids without a list of objects
        boxes[ids[kept] - 1] = np.stack([low[kept], high[kept]], axis=1)
        return boxes

    @property
    def solid_triangles(self) -> np.ndarray:
        """[S, 3] int32, the triangles that are obstacles or ground: all but those of objects that are not solid."""
        hollow = [number for number, one in enumerate(self.objects, 1) if not one.solid]
        return self.triangles[~np.isin(self.triangle_object, hollow)] if hollow else self.triangles

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        arrays = [self.vertices, self.triangles, self.triangle_material, self.triangle_object, *self.textures]
        return sum(array.nbytes for array in (*arrays, self.uvs, self.colors) if array is not None)
