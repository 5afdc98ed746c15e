"""Assembly of scenes: SceneBuilder joins the parts of a file, ``compose`` joins whole scenes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.images import DamagedImageError, decode_texture, mask_of, open_image
from gym_batchnav.scene.scene import LINEAR, OPAQUE, REPEAT, Materials, Scene
from gym_batchnav.scene.textures import AUTO, LARGEST_SIDE, Textures
from gym_batchnav.system.progress import report_stage
from gym_batchnav.system.wording import counted

MAX_TRIANGLES = 50_000_000
MAX_PARTS = 100_000
TOO_MANY_PARTS = f"it has more than {MAX_PARTS:,} parts: join some of its meshes"
MAX_SCENE_PIXELS = 2**31  # which are decoded one texture at a time, in half a minute
MAX_TEXTURES = 10_000
MAX_ELEMENTS = 20_000_000  # vertices and triangles, which take about 1 GiB while loading; or one per byte of the files
_ELEMENT_BYTES = 50  # while a scene is loaded
# Limits of textures that decompress to much more than their size: an allowance plus a rate per byte of input.
FREE_PIXELS = 2**29
PIXELS_PER_BYTE = 8
_LEAST_WIDTH = 64  # pixels as which a row counts at least, since decoders take time for each row
FREE_IMAGE_BYTES = 2**31  # of image files, of which several may be the same
IMAGE_BYTES_PER_BYTE = 8
_NO_UV = np.zeros(2, np.float32)  # for vertices of parts that have none
_WHITE = np.full(4, 255, np.uint8)


@dataclass(frozen=True, slots=True)
class Material:
    """A material; ``image`` is a number that ``SceneBuilder.add_image`` returned, -1 for no texture."""

    base_color: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)  # linear
    image: int = -1
    alpha_mode: int = OPAQUE
    alpha_cutoff: float = 0.5
    double_sided: bool = False
    wrap: tuple[int, int] = (REPEAT, REPEAT)
    filter: int = LINEAR
    number: int = -1  # of the material in its file, so that materials that look the same stay apart


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Triangles that share a material, in any frame."""

    vertices: np.ndarray  # [V, 3] float, finite and all in use
    triangles: np.ndarray  # [T, 3] int32
    material: Material
    uvs: np.ndarray | None = None  # [V, 2] float32, v = 0 at the top
    colors: np.ndarray | None = None  # [V, 4] uint8, linear


class SceneBuilder:
    """A builder that collects the content of one scene; ``build`` returns the Scene.

    Args:
        files: The files of the scene, to which warnings are added.
        texture_size: Longest side of a texture in pixels, or ``"auto"``; see ``load_scene``.
        filtered: Whether textures are scaled by averages; colours that stand for numbers must not be.
    """

    def __init__(self, files: SceneFiles, texture_size: int | str = AUTO, *, filtered: bool = True) -> None:
        self._files = files
        self._objects: list[SceneObject] = []
        self._placed: list[tuple[Part, np.ndarray, int]] = []
        self._textures = Textures(texture_size, filtered)
        self._images = ImageBudget(files)
        self._num_pixels = 0
        self._read = _Budget(files)
        self._placing = _Budget(files)
        self._num_dropped = 0
        self._material_rows: dict[Material, int] = {}

    def add_image(self, data: bytes | None, label: str, alpha: bytes | None = None) -> int:
        """Add a texture and return its number, or -1 if it is missing (``data`` None) or damaged.

        Args:
            data: The bytes of an image file.
            label: Its name in messages.
            alpha: The bytes of another image file, whose alpha (or brightness if it is opaque) becomes the alpha.

        Raises:
            ValueError: If it is KTX2 or too large, or all textures, damaged ones included, are too many or have more
                bytes or pixels than the files' sizes justify.
        """
        self._images.add(*(len(file) for file in (data, alpha) if file is not None))
        if data is None:
            self._files.missing.append(label)
            return -1
        report_stage(f"{self._files.path.name}: texture {len(self._textures) + 1}")
        try:
            pixels = self._decode(data, label)
            if alpha is not None:
                pixels[..., 3] = mask_of(self._decode(alpha, label), *pixels.shape[:2])
        except DamagedImageError:
            self._files.missing.append(label)
            return -1
        self._textures.add(pixels)
        return len(self._textures) - 1

    def _decode(self, data: bytes, label: str) -> np.ndarray:
        filtered = self._textures.filtered
        image = open_image(data, label, self._textures.size if filtered else LARGEST_SIDE)  # mip levels are filtered
        self._num_pixels += max(image.width, _LEAST_WIDTH) * image.height
        most = min(MAX_SCENE_PIXELS, FREE_PIXELS + PIXELS_PER_BYTE * self._files.num_bytes)
        if self._num_pixels > most:
            raise ValueError(f"its textures have more than {most:,} pixels in total: scale them down")
        return decode_texture(image, label, self._textures.size, filtered)

    def expect(self, num_vertices: int, num_triangles: int) -> None:
        """Check the size of compressed data before it is unpacked, without counting it.

        Raises:
            ValueError: If ``part`` would not accept it.
        """
        self._read.check(num_vertices, num_triangles)

    def part(
        self,
        vertices: np.ndarray,
        triangles: np.ndarray,
        material: Material,
        uvs: np.ndarray | None = None,
        colors: np.ndarray | None = None,
    ) -> Part | None:
        """Return a part without unused vertices and triangles that are not finite; None if no triangle is left.

        Args:
            vertices: [V, 3] float.
            triangles: [T, 3] integers, each below V.
            material: Material of the part; a texture needs ``uvs``.
            uvs: [V, 2] float.
            colors: [V, 4] uint8.

        Raises:
            ValueError: If all parts exceed the limits above, or are larger than the files' sizes justify.
        """
        self._read.add(min(len(vertices), 3 * len(triangles)), len(triangles))
        if 24 * len(triangles) < len(vertices):  # primitives that share a long list of vertices skip most of it
            used, compact = np.unique(triangles, return_inverse=True)
            triangles = compact.reshape(-1, 3)
            vertices = vertices[used]
            uvs, colors = (None if one is None else one[used] for one in (uvs, colors))
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
            uvs, colors = (None if one is None else one[used] for one in (uvs, colors))
        uvs = None if uvs is None else finite_uvs(uvs)
        return Part(vertices, triangles.astype(np.int32), material, uvs, colors)

    def add_object(self, one: SceneObject, parts: list[Part], matrix: np.ndarray) -> None:
        """Place parts as one object with a semantic id.

        Args:
            one: The object.
            parts: Its parts; without any it is left out.
            matrix: [4, 4], from their frame to the world.

        Raises:
            ValueError: If the scene exceeds the limits above, or is larger than the files' sizes justify.
        """
        if not parts:
            return
        self._objects.append(one)
        for part in parts:
            self._placing.add(len(part.vertices), len(part.triangles))
        self._placed += [(part, matrix, len(self._objects)) for part in parts]

    def vertices_and_triangles(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the vertices [V, 3] float64 and triangles [T, 3] int32 placed so far, in the file's world frame.

        Raises:
            ValueError: If there is no triangle.
        """
        if not self._placed:
            reason = "has triangles, but no finite one" if self._num_dropped else "has no triangles"
            raise ValueError(f"it {reason}: export its meshes as triangles")
        vertices = np.empty((sum(len(part.vertices) for part, _, _ in self._placed), 3))
        triangles = np.empty((sum(len(part.triangles) for part, _, _ in self._placed), 3), np.int32)
        start = first = 0
        for part, matrix, _ in self._placed:
            end = start + len(part.vertices)
            vertices[start:end] = part.vertices @ matrix[:3, :3].T.astype(np.float64) + matrix[:3, 3]
            mirrored = np.linalg.det(matrix[:3, :3]) < 0
            rows = triangles[first : first + len(part.triangles)]
            np.add(part.triangles[:, ::-1] if mirrored else part.triangles, np.int32(start), out=rows)
            start = end
            first += len(rows)
        return vertices, triangles

    def build(
        self,
        name: str,
        vertices: np.ndarray,
        triangles: np.ndarray,
        navmesh: NavMesh | None,
        metadata: dict[str, object],
    ) -> Scene:
        """Return the Scene.

        Args:
            name: The scene's name.
            vertices: [V, 3] float32, the vertices of ``vertices_and_triangles`` in the scene's frame.
            triangles: [T, 3] int32, the triangles of ``vertices_and_triangles``.
            navmesh: The navmesh that came with the file.
            metadata: Other facts about the scene.
        """
        if self._num_dropped:
            self._files.warnings.append(f"{self._num_dropped} triangles with corners that are not finite were dropped")
        parts = [part for part, _, _ in self._placed]
        counts = [len(part.triangles) for part in parts]
        num_vertices = [len(part.vertices) for part in parts]
        rows = [self._material_rows.setdefault(part.material, len(self._material_rows)) for part in parts]
        if self._files.missing:
            shown = ", ".join(self._files.missing[:5]) + (", ..." if len(self._files.missing) > 5 else "")
            textures = counted(len(self._files.missing), "missing or damaged texture")
            self._files.warn(f"{textures}, replaced by the base colour: {shown}; add or repair them")
        return Scene(
            name=name,
            vertices=vertices,
            triangles=triangles,
            triangle_material=np.repeat(rows, counts).astype(np.int32),
            triangle_object=np.repeat([number for _, _, number in self._placed], counts).astype(np.int32),
            materials=self._materials(),
            uvs=_joined([part.uvs for part in parts], num_vertices, _NO_UV),
            colors=_joined([part.colors for part in parts], num_vertices, _WHITE),
            textures=self._textures.all(),
            objects=tuple(self._objects),
            navmesh=navmesh,
            warnings=tuple(self._files.warnings),
            metadata=metadata | ({"texture_size": self._textures.size} if len(self._textures) else {}),
        )

    def _materials(self) -> Materials:
        materials = list(self._material_rows)
        return Materials(
            base_color=np.array([material.base_color for material in materials], np.float32),
            texture=np.array([material.image for material in materials], np.int32),
            alpha_mode=np.array([material.alpha_mode for material in materials], np.uint8),
            alpha_cutoff=np.array([material.alpha_cutoff for material in materials], np.float32),
            double_sided=np.array([material.double_sided for material in materials], bool),
            wrap=np.array([material.wrap for material in materials], np.uint8),
            filter=np.array([material.filter for material in materials], np.uint8),
        )


class ImageBudget:
    """A counter of a scene's images, damaged ones included, since trying to decode them takes time.

    Args:
        files: The scene's files.
    """

    def __init__(self, files: SceneFiles) -> None:
        self._files = files
        self._num_images = 0
        self._num_bytes = 0

    def add(self, *sizes: int) -> None:
        """Count the image of a texture, which is made of files with these sizes in bytes.

        Raises:
            ValueError: If there are too many, or they have more bytes than the scene's files justify.
        """
        self._num_images += 1
        self._num_bytes += sum(sizes)
        if self._num_images > MAX_TEXTURES:
            raise ValueError(f"it has more than {MAX_TEXTURES:,} textures: combine some into an atlas")
        most = FREE_IMAGE_BYTES + IMAGE_BYTES_PER_BYTE * self._files.num_bytes
        if self._num_bytes > most:
            raise ValueError(f"its textures have more than {most:,} bytes in total: store each image once")


class _Budget:
    """A counter of the content of parts, which raises ValueError beyond the limits above."""

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
        num_elements = self._num_elements + num_vertices + num_triangles
        if self._num_parts >= MAX_PARTS:
            raise ValueError(TOO_MANY_PARTS)
        if self._num_triangles + num_triangles > MAX_TRIANGLES:
            raise ValueError(f"it has more than {MAX_TRIANGLES:,} triangles: simplify it or load a part of it")
        most = max(MAX_ELEMENTS, self._files.num_bytes)
        if num_elements > most:
            cost = f"{num_elements * _ELEMENT_BYTES >> 20:,} MiB while loading"
            raise ValueError(
                f"it expands to {num_elements:,} or more vertices and triangles ({cost}), and the limit is {most:,} of "
                "them: instance its meshes less often, or simplify them"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A scene with its place in another."""

    scene: Scene
    matrix: np.ndarray  # [4, 4] float64, from the scene's frame to the world
    whole: SceneObject | None = None  # makes the whole scene this object; None keeps its objects


def compose(name: str, placed: Sequence[Placed]) -> Scene:
    """Join placed scenes; the materials and textures of a scene that is placed several times are stored once.

    Args:
        name: The name of the result.
        placed: One or more scenes.

    Returns:
        A Scene without navmesh and metadata; its warnings are those of its parts.

    Raises:
        ValueError: If they have more than ``MAX_TRIANGLES`` in total.
    """
    if sum(len(one.scene.triangles) for one in placed) > MAX_TRIANGLES:
        raise ValueError(f"its parts have more than {MAX_TRIANGLES:,} triangles: place fewer objects")
    counts = [len(one.scene.vertices) for one in placed]
    parts = list({id(one.scene): one.scene for one in placed}.values())
    materials, first_material = _joined_materials(parts)
    vertices = []
    triangles = []
    rows = []
    numbers = []
    objects: list[SceneObject] = []
    num_vertices = 0
    for one in placed:
        part = one.scene
        linear = one.matrix[:3, :3]
        vertices.append((part.vertices @ linear.T + one.matrix[:3, 3]).astype(np.float32))
        mirrored = np.linalg.det(linear) < 0
        triangles.append((part.triangles[:, ::-1] if mirrored else part.triangles) + np.int32(num_vertices))
        rows.append(part.triangle_material + np.int32(first_material[id(part)]))
        if one.whole is None:
            numbers.append(np.where(part.triangle_object > 0, part.triangle_object + np.int32(len(objects)), 0))
            objects += part.objects
        else:
            objects.append(one.whole)
            numbers.append(np.full(len(part.triangles), len(objects), np.int32))
        num_vertices += len(part.vertices)
    return Scene(
        name=name,
        vertices=np.concatenate(vertices),
        triangles=np.concatenate(triangles),
        triangle_material=np.concatenate(rows),
        triangle_object=np.concatenate(numbers).astype(np.int32),
        materials=materials,
        uvs=_joined([one.scene.uvs for one in placed], counts, _NO_UV),
        colors=_joined([one.scene.colors for one in placed], counts, _WHITE),
        textures=tuple(texture for part in parts for texture in part.textures),
        objects=tuple(objects),
        warnings=tuple(f"{part.name}: {sentence}" for part in parts for sentence in part.warnings),
    )


def _joined_materials(parts: Sequence[Scene]) -> tuple[Materials, dict[int, int]]:
    """Return the materials of all parts, and the first row of each part's materials by the part's ``id()``."""
    columns: dict[str, list[np.ndarray]] = {field.name: [] for field in fields(Materials)}
    first: dict[int, int] = {}
    num_materials = num_textures = 0
    for part in parts:
        first[id(part)] = num_materials
        for name, column in columns.items():
            values = getattr(part.materials, name)
            if name == "texture":
                values = np.where(values >= 0, values + np.int32(num_textures), values).astype(np.int32)
            column.append(values)
        num_materials += len(part.materials)
        num_textures += len(part.textures)
    return Materials(**{name: np.concatenate(column) for name, column in columns.items()}), first


def finite_uvs(uvs: np.ndarray) -> np.ndarray:
    """Return texture coordinates as float32 of the same shape, with 0 for those that are not finite."""
    with np.errstate(over="ignore"):
        return np.nan_to_num(uvs.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)


def _joined(values: Sequence[np.ndarray | None], counts: Sequence[int], missing: np.ndarray) -> np.ndarray | None:
    """Concatenate an attribute [V, width] of the vertices of parts, whose numbers are ``counts``.

    Parts without it get ``missing`` [width], which has the dtype of the result; None if no part has it.
    """
    if all(array is None for array in values):
        return None
    joined = np.tile(missing, (sum(counts), 1))
    start = 0
    for array, count in zip(values, counts, strict=True):
        if array is not None:
            joined[start : start + count] = array
        start += count
    return joined
