"""SceneBuilder: gathers objects, surfaces and pictures from whatever file, and makes the Scene record of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.files import SceneFiles, decode_texture, open_image
from gym_batchnav.scene.scene import OPAQUE, REPEAT, Materials, Scene

MAX_TRIANGLES = 20_000_000
MAX_PARTS = 100_000
MAX_SCENE_PIXELS = 2**30
MAX_PICTURES = 10_000
# What any file may stand for, and what each of its bytes adds: more than scenes need, less than bombs want.
FREE_ELEMENTS, ELEMENTS_PER_BYTE = 6_000_000, 0.5  # vertices and triangles
FREE_PIXELS, PIXELS_PER_BYTE = 2**27, 8


@dataclass(frozen=True, slots=True)
class Surface:
    """One material, with the picture it wears as a number of ``SceneBuilder.add_image``; -1 is none."""

    base_color: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)  # linear
    image: int = -1
    alpha_mode: int = OPAQUE
    alpha_cutoff: float = 0.5
    double_sided: bool = False
    wrap: tuple[int, int] = (REPEAT, REPEAT)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Triangles that share a surface, in some frame."""

    vertices: np.ndarray  # [V, 3] float, finite and all in use
    triangles: np.ndarray  # [T, 3] int32
    surface: Surface
    uvs: np.ndarray | None = None  # [V, 2] float32, v = 0 at the top
    colors: np.ndarray | None = None  # [V, 4] uint8, linear


class SceneBuilder:
    """Collects the content of one scene; ``build`` makes the record.

    Args:
        files: Where the content comes from; gets the warnings.
    """

    def __init__(self, files: SceneFiles) -> None:
        self._files = files
        self._objects: list[str] = []
        self._placed: list[tuple[Part, np.ndarray, int]] = []
        self._pictures: list[np.ndarray] = []
        self._num_pixels = 0
        self._read = _Tally(files)
        self._placing = _Tally(files)
        self._num_dropped = 0
        self._surfaces: dict[Surface, int] = {}

    def add_image(self, data: bytes | None, label: str, alpha: bytes | None = None) -> int:
        """Take in a picture; returns its number, or -1 when there is none (``data`` None) or it is damaged.

        Args:
            data: The bytes of the picture's file.
            label: What to call it in messages.
            alpha: The bytes of another picture whose alpha, or brightness if it is opaque, becomes the alpha of this.

        Raises:
            ValueError: it is too large, it is KTX2, or all pictures have more pixels than the files' bytes account for.
        """
        try:
            if data is None:
                raise OSError("no such file")
            pixels = self._decode(data, label)
            if alpha is not None:
                pixels[..., 3] = _mask(self._decode(alpha, label), *pixels.shape[:2])
        except OSError:
            self._files.missing.append(label)
            return -1
        if len(self._pictures) == MAX_PICTURES:
            raise ValueError(f"it has more than {MAX_PICTURES:,} textures: join some in an atlas")
        self._pictures.append(pixels)
        return len(self._pictures) - 1

    def _decode(self, data: bytes, label: str) -> np.ndarray:
        image = open_image(data, label)
        self._num_pixels += image.width * image.height
        most = min(MAX_SCENE_PIXELS, FREE_PIXELS + PIXELS_PER_BYTE * self._files.num_bytes)
        if self._num_pixels > most:
            raise ValueError(f"its textures have more than {most:,} pixels together: scale them down")
        return decode_texture(image)

    def expect(self, num_vertices: int, num_triangles: int) -> None:
        """Ask for room before what is compressed is unpacked; nothing is counted yet.

        Raises:
            ValueError: it would be more than ``part`` takes.
        """
        self._read.check(num_vertices, num_triangles)

    def part(
        self,
        vertices: np.ndarray,
        triangles: np.ndarray,
        surface: Surface,
        uvs: np.ndarray | None = None,
        colors: np.ndarray | None = None,
    ) -> Part | None:
        """A part without its unused vertices and without triangles whose corners are not finite; None if none is left.

        Args:
            vertices: [V, 3] float.
            triangles: [T, 3] integers, each below V.
            surface: What they look like; a picture needs ``uvs``.
            uvs: [V, 2] float.
            colors: [V, 4] uint8.

        Raises:
            ValueError: all parts together have more than the limits above, or than the files' bytes account for.
        """
        self._read.add(min(len(vertices), 3 * len(triangles)), len(triangles))
        if 24 * len(triangles) < len(vertices):  # primitives that share long lists of vertices do not walk them all
            used, compact = np.unique(triangles, return_inverse=True)
            triangles, vertices = compact.reshape(-1, 3), vertices[used]
            uvs = None if uvs is None else uvs[used]
            colors = None if colors is None else colors[used]
        usable = (np.abs(vertices) < 1e15).all(axis=1)  # False for NaN too
        if not usable.all():
            kept = usable[triangles].all(axis=1)
            self._num_dropped += len(kept) - int(kept.sum())
            triangles = triangles[kept]
        if len(triangles) == 0:
            return None
        used = np.zeros(len(vertices), bool)
        used[triangles] = True
        if not used.all():
            triangles = (np.cumsum(used) - 1)[triangles]
            vertices = vertices[used]
            uvs = None if uvs is None else uvs[used]
            colors = None if colors is None else colors[used]
        if uvs is not None:
            uvs = np.nan_to_num(uvs, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float32)
        return Part(vertices, triangles.astype(np.int32), surface, uvs, colors)

    def add_object(self, name: str, parts: list[Part], matrix: np.ndarray) -> None:
        """Place parts, in the frame that ``matrix`` [4, 4] takes to the world, as one object with a semantic id.

        Raises:
            ValueError: the scene grows beyond the limits above, or beyond what the files' bytes account for.
        """
        if not parts:
            return
        self._objects.append(name)
        for part in parts:
            self._placing.add(len(part.vertices), len(part.triangles))
        self._placed += [(part, matrix, len(self._objects)) for part in parts]

    def vertices_and_triangles(self) -> tuple[np.ndarray, np.ndarray]:
        """The world-space vertices [V, 3] float64 and triangles [T, 3] int32 so far, in the file's own frame.

        Raises:
            ValueError: there is no triangle.
        """
        if not self._placed:
            raise ValueError("it has no triangles: export the meshes too, as triangles")
        vertices, triangles, start = [np.zeros((0, 3))], [np.zeros((0, 3), np.int32)], 0
        for part, matrix, _ in self._placed:
            vertices.append(part.vertices @ matrix[:3, :3].T.astype(np.float64) + matrix[:3, 3])
            mirrored = np.linalg.det(matrix[:3, :3]) < 0
            triangles.append((part.triangles[:, ::-1] if mirrored else part.triangles) + np.int32(start))
            start += len(part.vertices)
        return np.concatenate(vertices), np.concatenate(triangles)

    def build(
        self,
        name: str,
        vertices: np.ndarray,
        triangles: np.ndarray,
        navmesh: NavMesh | None,
        metadata: dict[str, object],
    ) -> Scene:
        """The scene record.

        Args:
            name: The scene's name.
            vertices: [V, 3] float32, those of ``vertices_and_triangles`` in the scene's frame.
            triangles: [T, 3] int32, those of ``vertices_and_triangles``.
            navmesh: The one that came with the file.
            metadata: What else is known of it.
        """
        if self._num_dropped:
            self._files.warnings.append(f"{self._num_dropped} triangles with corners that are not finite were dropped")
        parts = [part for part, _, _ in self._placed]
        counts = [len(part.triangles) for part in parts]
        rows = [self._surfaces.setdefault(part.surface, len(self._surfaces)) for part in parts]
        if self._files.missing:
            shown = ", ".join(self._files.missing[:5]) + (", ..." if len(self._files.missing) > 5 else "")
            sentence = f"{len(self._files.missing)} textures are missing or damaged and are drawn in the base colour"
            self._files.warn(f"{sentence}: {shown}")
        return Scene(
            name=name,
            vertices=vertices,
            triangles=triangles,
            triangle_material=np.repeat(rows, counts).astype(np.int32),
            triangle_object=np.repeat([number for _, _, number in self._placed], counts).astype(np.int32),
            materials=self._materials(),
            uvs=_joined([part.uvs for part in parts], parts, 2, np.float32, 0),
            colors=_joined([part.colors for part in parts], parts, 4, np.uint8, 255),
            textures=tuple(self._pictures),
            objects=tuple(self._objects),
            navmesh=navmesh,
            warnings=tuple(self._files.warnings),
            metadata=metadata,
        )

    def _materials(self) -> Materials:
        surfaces = list(self._surfaces)
        return Materials(
            base_color=np.array([surface.base_color for surface in surfaces], np.float32),
            texture=np.array([surface.image for surface in surfaces], np.int32),
            alpha_mode=np.array([surface.alpha_mode for surface in surfaces], np.uint8),
            alpha_cutoff=np.array([surface.alpha_cutoff for surface in surfaces], np.float32),
            double_sided=np.array([surface.double_sided for surface in surfaces], bool),
            wrap=np.array([surface.wrap for surface in surfaces], np.uint8),
        )


class _Tally:
    """Counts the content of parts, and refuses more than a scene's files can account for.

    Args:
        files: The scene's files.
    """

    def __init__(self, files: SceneFiles) -> None:
        self._files = files
        self._num_parts = 0
        self._num_triangles = 0
        self._num_elements = 0

    def add(self, num_vertices: int, num_triangles: int) -> None:
        """Count one part."""
        self.check(num_vertices, num_triangles)
        self._num_parts += 1
        self._num_triangles += num_triangles
        self._num_elements += num_vertices + num_triangles

    def check(self, num_vertices: int, num_triangles: int) -> None:
        """Refuse one part more if that is too much."""
        num_elements = self._num_elements + num_vertices + num_triangles
        if self._num_parts >= MAX_PARTS:
            raise ValueError(f"it has more than {MAX_PARTS:,} parts: join some of its meshes")
        if self._num_triangles + num_triangles > MAX_TRIANGLES:
            raise ValueError(f"it has more than {MAX_TRIANGLES:,} triangles: simplify it or load a part of it")
        if num_elements > FREE_ELEMENTS + ELEMENTS_PER_BYTE * self._files.num_bytes:
            size = f"{num_elements:,} or more vertices and triangles out of {self._files.num_bytes:,} bytes"
            raise ValueError(f"it makes {size}: use its meshes less often, or simplify them")


def _mask(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """The alpha [H, W] uint8 of a picture, or its brightness where all of it is opaque, at another size."""
    image = Image.fromarray(pixels)
    mask = image.convert("L") if (pixels[..., 3] == 255).all() else image.getchannel("A")
    return np.asarray(mask if mask.size == (width, height) else mask.resize((width, height)))


def _joined(
    arrays: list[np.ndarray | None], parts: list[Part], width: int, dtype: type, fill: int
) -> np.ndarray | None:
    """The parts' attribute in one array, ``fill`` where a part has none; None where no part has it."""
    if all(array is None for array in arrays):
        return None
    joined: np.ndarray = np.full((sum(len(part.vertices) for part in parts), width), fill, dtype)
    start = 0
    for array, part in zip(arrays, parts, strict=True):
        if array is not None:
            joined[start : start + len(array)] = array
        start += len(part.vertices)
    return joined
