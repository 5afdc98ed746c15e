"""XML of MuJoCo models: parsed without entities, with its include elements replaced by the files that they name."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from gym_batchnav.scene.files import SceneFiles

MJCF_SUFFIX = ".xml"
MJCF_PARTS = (".obj", ".stl")  # endings of files that are parts of a model, although they could be scenes
MAX_XML_BYTES = 2**25  # of one file
MAX_ELEMENTS = 500_000  # of one file
MAX_DEPTH = 100  # of nested elements; MuJoCo's compiler calls itself once per level
MAX_INCLUDED_BYTES = 2**26  # of all files that one model includes
_HEAD_BYTES = 2**16  # in which the first element begins; licences may precede it


def is_mjcf(path: Path) -> bool:
    """Return whether a file begins like a model of MuJoCo; other programs use XML too."""
    with path.open("rb") as file:
        return re.search(rb"<mujoco[\s>/]", file.read(_HEAD_BYTES)) is not None


def parse_xml(data: bytes, label: str) -> ElementTree.Element:
    """Parse an XML file without a document type, which could declare entities.

    Args:
        data: The bytes of the file.
        label: Its name in messages.

    Raises:
        ValueError: If it is not XML, has a document type, or exceeds the limits above.
    """
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    opened = depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal opened, depth
        opened += 1
        depth += 1
        if opened > MAX_ELEMENTS:
            raise ValueError(f"'{label}' has more than {MAX_ELEMENTS:,} elements: split the scene")
        if depth > MAX_DEPTH:
            raise ValueError(f"'{label}' nests elements more than {MAX_DEPTH} deep: flatten its bodies")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def refuse(*_: object) -> None:
        raise ValueError(f"'{label}' has a document type (<!DOCTYPE), which MuJoCo's format does not use: remove it")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(f"'{label}' is not well-formed XML ({error}): re-export it") from error
    except (LookupError, UnicodeError) as error:  # of an encoding that Python does not know
        raise ValueError(f"'{label}' has an unknown encoding ({error}): save it as UTF-8") from error
    return builder.close()


def read_xml(files: SceneFiles, path: str) -> ElementTree.Element:
    """Read the ``mujoco`` element of a model; each ``include`` is replaced by the content of the file that it names.

    Args:
        files: The scene's files.
        path: The model's path relative to the scene's folder; "" for the scene's main file.

    Raises:
        ValueError: If a file is not a model, is missing, lies outside the scene's folder, or is included twice.
    """
    label = path or files.path.name
    root = parse_xml(_bytes(files, path), label)
    if root.tag == "robot":
        raise ValueError(f"'{label}' is a URDF file, which is not supported: convert it to MuJoCo's XML")
    if root.tag != "mujoco":
        raise ValueError(f"'{label}' begins with <{root.tag[:50]}>, not with <mujoco>: only MuJoCo's XML is supported")
    folder = path.rpartition("/")[0]
    _include(files, root, folder, {path}, [MAX_INCLUDED_BYTES], 0)
    return root


def _include(
    files: SceneFiles, parent: ElementTree.Element, folder: str, seen: set[str], left: list[int], depth: int
) -> None:
    """Replace the include elements below ``parent``; ``left`` holds the bytes that may still be included."""
    if depth > MAX_DEPTH:
        raise ValueError(f"its included files nest elements more than {MAX_DEPTH} deep: flatten its bodies")
    children: list[ElementTree.Element] = []
    waiting = list(reversed(parent))
    while waiting:
        child = waiting.pop()
        if child.tag != "include":
            children.append(child)
            continue
        name = child.get("file", "")
        path = f"{folder}/{name}" if folder else name
        if path in seen:
            raise ValueError(f"it includes '{path[:200]}' twice, which MuJoCo does not allow: remove one of the two")
        seen.add(path)
        data = _bytes(files, path)
        left[0] -= len(data)
        if left[0] < 0:
            raise ValueError(f"it includes more than {MAX_INCLUDED_BYTES:,} bytes of XML: split the scene")
        waiting += reversed(parse_xml(data, path))
    parent[:] = children
    for child in children:
        _include(files, child, folder, seen, left, depth + 1)


def _bytes(files: SceneFiles, path: str) -> bytes:
    if not path:
        return files.main(MAX_XML_BYTES)
    try:
        return files.beside(path, max_bytes=MAX_XML_BYTES)
    except FileNotFoundError:
        raise ValueError(f"it refers to '{path[:200]}', which does not exist: put the file there") from None
