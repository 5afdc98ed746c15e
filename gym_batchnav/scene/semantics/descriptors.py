"""The files that list the objects of a scan: HM3D's text, Matterport3D's houses, and the JSON of Gibson and Replica.

The formats are those that Habitat-Sim reads (``HM3DSemanticScene``, ``Mp3dSemanticScene``, ``GibsonSemanticScene`` and
``ReplicaSemanticScene``).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

from gym_batchnav.scene.categories import MAX_LABEL, SceneObject
from gym_batchnav.scene.files import naming_part
from gym_batchnav.scene.json_values import integer, mapping, parse_json, sequence

MAX_DESCRIPTOR_BYTES = 2**26
MAX_OBJECTS = 100_000
_HM3D_HEADER = "HM3D Semantic Annotations"
_HOUSE_HEADER = "ASCII 1."
_UNNAMED = SceneObject("", "")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The objects of a scan."""

    objects: tuple[SceneObject, ...]  # by semantic id, from id 1; without name or category where the file has a gap
    first_id: int  # number that the scan's mesh has for the object with semantic id 1
    colors: Mapping[int, int] | None = None  # semantic id by 0xRRGGBB, where the mesh distinguishes objects by colours


def read_descriptor(name: str, data: bytes) -> Descriptor:
    """Parse a descriptor; the ending of its name determines the format.

    Raises:
        ValueError: If it is damaged, has an unknown ending, or lists no object or too many.
    """
    readers = {".semantic.txt": _hm3d, ".house": _house, ".scn": _gibson, ".json": _replica}
    with naming_part(name):
        read = next((one for ending, one in readers.items() if name.endswith(ending)), None)
        if read is None:
            raise ValueError(f"its name ends in none of {', '.join(readers)}")
        found = read(data)
        if not found.objects:
            raise ValueError("it lists no objects")
    return found


def read_lexicon(name: str, data: bytes) -> dict[int, str]:
    """Parse the JSON that names the classes of a scene dataset: the names by number.

    Raises:
        ValueError: If it is damaged.
    """
    with naming_part(name):
        return _classes(parse_json(data))


def read_object_table(name: str, data: bytes) -> dict[str, str]:
    """Parse HSSD's ``objects.csv``: the categories of objects by the names of their files.

    The category is ``main_category``, or else the noun of ``wnsynsetkey`` ("chair.n.01").

    Raises:
        ValueError: If it is not such a table.
    """
    with naming_part(name):
        rows = csv.DictReader(io.StringIO(_text(data)))
        if "id" not in (rows.fieldnames or ()):
            raise ValueError("it has no column id")
        found = {}
        for row in rows:
            category = (row.get("main_category") or "").strip() or (row.get("wnsynsetkey") or "").split(".")[0].strip()
            if row["id"] and category:
                found[row["id"]] = category
    return found


def _hm3d(data: bytes) -> Descriptor:
    """Parse rows of an id, a colour in hexadecimal, a category in quotes and a region."""
    lines = _text(data).splitlines()
    if not lines or _HM3D_HEADER not in lines[0]:
        raise ValueError(f"its first line is not {_HM3D_HEADER!r}")
    categories: dict[int, str] = {}
    colors: dict[int, int] = {}
    for row in csv.reader(line for line in lines[1:] if line.strip()):
        if len(row) < 4:
            raise ValueError(f"the row {','.join(row)[:80]!r} has fewer than four columns")
        number = _number(row[0])
        color = int(row[1].strip(), 16)
        if not 0 <= color < 2**24:
            raise ValueError(f"the colour {row[1][:20]!r} has more than six digits")
        categories[number] = row[2].strip()
        colors[color] = number
    return Descriptor(_numbered(categories, 1), 1, colors)


def _house(data: bytes) -> Descriptor:
    """Parse a house: lines C name categories by mpcat40's names, lines O give objects a category."""
    lines = _text(data).splitlines()
    if not lines or not lines[0].startswith(_HOUSE_HEADER):
        raise ValueError(f"its first line does not begin with {_HOUSE_HEADER!r}")
    names: dict[int, str] = {}
    owners: dict[int, int] = {}
    for line in lines[1:]:
        tokens = line.split()
        if tokens[:1] == ["C"]:  # number, number and name of the raw category, number and name in mpcat40
            names[int(tokens[1])] = tokens[5].replace("#", " ")
        elif tokens[:1] == ["O"]:  # number, region, category
            owners[_number(tokens[1])] = int(tokens[3])
    return Descriptor(_numbered({number: names.get(owner, "") for number, owner in owners.items()}, 0), 0)


def _gibson(data: bytes) -> Descriptor:
    """Parse a list of objects with their class."""
    rows = [mapping(row, "an object") for row in sequence(parse_json(data)["objects"], "objects")]
    categories = {_number(row["id"]): str(row["class_"]) for row in rows}
    first = 0 if 0 in categories else 1
    return Descriptor(_numbered(categories, first), first)


def _replica(data: bytes) -> Descriptor:
    """Parse a list of classes and of objects with the number of their class."""
    document = parse_json(data)
    names = _classes(document)
    rows = [mapping(row, "an object") for row in sequence(document["objects"], "objects")]
    categories = {_number(row["id"]): names.get(row.get("class_id", -1), "") for row in rows}
    return Descriptor(_numbered(categories, 0), 0)


def _classes(document: Mapping[str, object]) -> dict[int, str]:
    rows = [mapping(row, "a class") for row in sequence(document["classes"], "classes")]
    return {integer(row, "id"): str(row["name"]) for row in rows}


def _number(value: object) -> int:
    number = int(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < MAX_OBJECTS:
        raise ValueError(f"an object has the number {str(value)[:20]!r}, which is not from 0 to {MAX_OBJECTS - 1:,}")
    return number


def _numbered(categories: Mapping[int, str], first: int) -> tuple[SceneObject, ...]:
    """Return the objects from number ``first`` on; an object's name is its category and its number."""
    objects = [_UNNAMED] * (max(categories, default=first - 1) + 1 - first)
    for number, category in categories.items():
        if number < first:
            raise ValueError(f"an object has the number {number}, but numbers begin at {first}")
        plain = " ".join(category.split()).lower()[:MAX_LABEL]
        objects[number - first] = SceneObject(f"{plain or 'object'}_{number}", plain)
    return tuple(objects)


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="replace")
