"""Exports a map of ViZDoom as an OBJ file with textures, for benchmarks/doom.py.

python benchmarks/doom_map.py FOLDER --map my_way_home       # in an environment with vizdoom, shapely and pillow

The map is read from the WAD file of a scenario (text maps in the UDMF format, https://doomwiki.org/wiki/UDMF), its
textures from the game data of ViZDoom. Floors, ceilings, walls and steps are exported with their textures. Things,
which Doom draws as flat pictures that face the viewer, skies, transparent middle textures and the light of sectors are
left out. Heights are stretched by 1.2, as on the screens of 320 x 200 pixels that Doom was made for, so that cameras
with square pixels show the same pictures.
"""

from __future__ import annotations

import argparse
import re
import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

UNITS_PER_METRE = 32.0  # the player's eyes are 41 units above the floor
STRETCH = 1.2  # of heights
SKY = "F_SKY1"
NO_TEXTURE = ("-", "")
FLAT_SIDE = 64  # texels and map units, of the texture of a floor or ceiling

Block = dict[str, str]  # the fields of a block of a text map


class Face(NamedTuple):
    """A polygon in map units: x east, y north, z up; texture coordinates in texels, v down."""

    name: str
    texture: str
    corners: list[tuple[float, float, float]]
    texels: list[tuple[float, float]]


class Wad:
    """The lumps of WAD files by name; later files replace lumps of earlier ones.

    Raises:
        ValueError: If a file is no WAD.
    """

    def __init__(self, *paths: Path) -> None:
        self.lumps: dict[str, bytes] = {}
        for path in paths:
            content = path.read_bytes()
            kind, count, start = struct.unpack_from("<4sii", content)
            if kind not in (b"IWAD", b"PWAD"):
                raise ValueError(f"{path} is not a WAD file")
            for index in range(count):
                place, size, name = struct.unpack_from("<ii8s", content, start + 16 * index)
                self.lumps[_name(name)] = content[place : place + size]

    def palette(self) -> np.ndarray:
        """Return the colours [256, 3] uint8."""
        return np.frombuffer(self.lumps["PLAYPAL"], np.uint8, 768).reshape(256, 3)

    def texture(self, name: str) -> np.ndarray:
        """Return a texture [H, W, 4] uint8, of walls or else of floors and ceilings; each may be used on both.

        Raises:
            ValueError: If there is no such texture.
        """
        for table in ("TEXTURE1", "TEXTURE2"):
            textures = self.lumps.get(table, bytes(4))
            for place in struct.unpack_from(f"<{struct.unpack_from('<i', textures)[0]}i", textures, 4):
                if _name(textures[place : place + 8]) == name:
                    return self._composed(textures, place)
        flat = self.lumps.get(name, b"")
        if len(flat) != FLAT_SIDE * FLAT_SIDE:
            raise ValueError(f"there is no texture {name!r}")
        rows = np.frombuffer(flat, np.uint8).reshape(FLAT_SIDE, FLAT_SIDE)
        return np.dstack([self.palette()[rows], np.full_like(rows, 255)])

    def _composed(self, textures: bytes, place: int) -> np.ndarray:
        """Return the texture of walls whose patches are listed at a place of a table."""
        patches = self.lumps["PNAMES"]
        width, height, _, count = struct.unpack_from("<hhih", textures, place + 12)
        picture = np.zeros((height, width, 4), np.uint8)
        for index in range(count):
            left, top, patch = struct.unpack_from("<hhh", textures, place + 22 + 10 * index)
            self._draw_patch(picture, left, top, _name(patches[4 + 8 * patch : 12 + 8 * patch]))
        return picture

    def _draw_patch(self, picture: np.ndarray, left: int, top: int, name: str) -> None:
        """Draw a patch, which is stored as columns of runs of texels (https://doomwiki.org/wiki/Picture_format)."""
        patch = self.lumps[name]
        palette = self.palette()
        width = struct.unpack_from("<h", patch)[0]
        for column, start in enumerate(struct.unpack_from(f"<{width}i", patch, 8), left):
            if not 0 <= column < picture.shape[1]:
                continue
            place = start
            while patch[place] != 255:
                row = top + patch[place]
                run = palette[np.frombuffer(patch, np.uint8, patch[place + 1], place + 3)]
                first = max(row, 0)
                last = min(row + len(run), len(picture))
                if last > first:
                    picture[first:last, column, :3] = run[first - row : last - row]
                    picture[first:last, column, 3] = 255
                place += 4 + patch[place + 1]


class TextMap:
    """The vertices, lines, sides and sectors of a text map."""

    def __init__(self, text: str) -> None:
        blocks: defaultdict[str, list[Block]] = defaultdict(list)
        for kind, body in re.findall(r"(\w+)\s*\{([^}]*)\}", re.sub(r"//.*", "", text)):
            fields = re.findall(r'(\w+)\s*=\s*(?:"([^"]*)"|([^;"]+));', body)
            blocks[kind.lower()].append({key.lower(): quoted or plain.strip() for key, quoted, plain in fields})
        self.vertices = [(float(vertex["x"]), float(vertex["y"])) for vertex in blocks["vertex"]]
        self.lines = blocks["linedef"]
        self.sides = blocks["sidedef"]
        self.sectors = blocks["sector"]

    def faces(self) -> Iterator[Face]:
        """Yield the faces of all floors, ceilings and walls."""
        for number in range(len(self.sectors)):
            yield from self._planes(number)
        for number, line in enumerate(self.lines):
            front = self._side(line, "sidefront")
            back = self._side(line, "sideback")
            ends = self.vertices[int(line["v1"])], self.vertices[int(line["v2"])]
            if front:
                yield from self._walls(f"wall{number}_front", ends, line, front, back)
            if back:
                yield from self._walls(f"wall{number}_back", ends[::-1], line, back, front)

    def _side(self, line: Block, field: str) -> Block | None:
        """Return one side of a line, or None."""
        number = int(line.get(field, -1))
        return self.sides[number] if number >= 0 else None

    def _heights(self, side: Block) -> tuple[float, float]:
        """Return the heights of floor and ceiling on a side."""
        sector = self.sectors[int(side["sector"])]
        return float(sector.get("heightfloor", 0)), float(sector.get("heightceiling", 0))

    def _planes(self, number: int) -> Iterator[Face]:
        """Yield the triangles of the floor and of the ceiling of a sector."""
        import shapely

        edges = []
        for line in self.lines:
            sides = [self._side(line, field) for field in ("sidefront", "sideback")]
            if sum(side is not None and int(side["sector"]) == number for side in sides) == 1:
                edges.append([self.vertices[int(line[end])] for end in ("v1", "v2")])
        sector = self.sectors[number]
        area = shapely.build_area(shapely.MultiLineString(edges))  # what an odd number of edges encloses
        planes = (("floor", float(sector.get("heightfloor", 0))), ("ceiling", float(sector.get("heightceiling", 0))))
        for triangle in shapely.constrained_delaunay_triangles(area).geoms:
            corners = list(shapely.orient_polygons(triangle).exterior.coords)[:3]  # counter-clockwise from above
            for plane, height in planes:
                texture = sector[f"texture{plane}"].upper()
                facing = corners if plane == "floor" else corners[::-1]
                if texture != SKY:
                    texels = [(x, -y) for x, y in facing]
                    yield Face(f"{plane}{number}", texture, [(x, y, height) for x, y in facing], texels)

    def _walls(
        self,
        name: str,
        ends: tuple[tuple[float, float], ...],
        line: Block,
        side: Block,
        behind: Block | None,
    ) -> Iterator[Face]:
        """Yield the walls of one side of a line, which runs from left to right as seen from there.

        A texture begins at the top of its wall or ends at the bottom, depending on flags of the line
        (https://doomwiki.org/wiki/Texture_alignment). Textures repeat, so both are a height where one begins.
        """
        floor, ceiling = self._heights(side)
        parts = [("texturemiddle", floor, ceiling, floor if "dontpegbottom" in line else ceiling)]
        if behind:
            step, lintel = self._heights(behind)
            parts = [
                ("texturebottom", floor, step, ceiling if "dontpegbottom" in line else step),
                ("texturetop", lintel, ceiling, ceiling if "dontpegtop" in line else lintel),
            ]
            sectors = (self.sectors[int(part["sector"])] for part in (side, behind))
            if all(sector["textureceiling"].upper() == SKY for sector in sectors):
                parts.pop()
        for field, bottom, top, begin in parts:
            texture = side.get(field, "-").upper()
            if texture in NO_TEXTURE or top <= bottom:
                continue
            (x0, y0), (x1, y1) = ends
            left = float(side.get("offsetx", 0))
            right = left + float(np.hypot(x1 - x0, y1 - y0))
            down = begin + float(side.get("offsety", 0))
            corners = [(x0, y0, bottom), (x1, y1, bottom), (x1, y1, top), (x0, y0, top)]
            texels = [(left, down - bottom), (right, down - bottom), (right, down - top), (left, down - top)]
            yield Face(name, texture, corners, texels)


def _name(raw: bytes) -> str:
    """Return the name that a field of eight bytes holds."""
    return raw.split(b"\0")[0].decode("latin-1").upper()


def export(wad: Wad, folder: Path) -> None:
    """Write ``map.obj``, ``map.mtl`` and a PNG file per texture.

    Args:
        wad: The map, and the game's data with its textures.
        folder: Where to write; it exists.
    """
    from PIL import Image

    sizes: dict[str, tuple[int, int]] = {}
    materials = []
    lines = ["mtllib map.mtl"]
    num_corners = 0
    last = ""
    for face in TextMap(wad.lumps["TEXTMAP"].decode("latin-1")).faces():
        if face.texture not in sizes:
            picture = wad.texture(face.texture)
            sizes[face.texture] = picture.shape[1], picture.shape[0]
            Image.fromarray(picture).convert("RGB").save(folder / f"{face.texture}.png")
            materials.append(f"newmtl {face.texture}\nmap_Kd {face.texture}.png")
        width, height = sizes[face.texture]
        if face.name != last:
            lines.append(f"o {face.name}")
            last = face.name
        lines.append(f"usemtl {face.texture}")
        for x, y, z in face.corners:
            point = np.array([x, z * STRETCH, -y]) / UNITS_PER_METRE
            lines.append("v " + " ".join(f"{value:.6f}" for value in point))
        lines.extend(f"vt {u / width:.6f} {1 - v / height:.6f}" for u, v in face.texels)
        numbers = range(num_corners + 1, num_corners + len(face.corners) + 1)
        lines.append("f " + " ".join(f"{number}/{number}" for number in numbers))
        num_corners += len(face.corners)
    (folder / "map.obj").write_text("\n".join(lines) + "\n")
    (folder / "map.mtl").write_text("\n".join(materials) + "\n")


def map_of(vizdoom: Any, scenario: str) -> Wad:
    """Return the lumps of a scenario of ViZDoom and of the game's data below them."""
    scenarios = Path(vizdoom.scenarios_path)
    return Wad(scenarios.parent / "freedoom2.wad", scenarios / f"{scenario}.wad")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write map.obj, its materials and textures")
    parser.add_argument("--map", default="my_way_home", help="a scenario of ViZDoom with one map")
    options = parser.parse_args()
    import vizdoom

    options.folder.mkdir(parents=True, exist_ok=True)
    export(map_of(vizdoom, options.map), options.folder)


if __name__ == "__main__":
    main()
