"""Mutations of bytes, text and JSON, and of the containers around them. All draw from a NumPy generator only."""

from __future__ import annotations

import copy
import gzip
import hashlib
import io
import json
import pickle
import re
import struct
import zipfile
from typing import Any

import numpy as np

ODD_NUMBERS: list[Any] = [
    *(0, 1, -1, 2, 3, 7, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, -(2**31), 10**9, 10**400),
    *(0.5, -0.5, 1e-30, 1e-6, 1.5, 99.9, 1000.5, 8193.0, 1e6, 1e15, 1e30, -1e30, 1e308),
]
ODD_VALUES: list[Any] = [*ODD_NUMBERS, None, True, False, "", "x", "../x", "\0", "x" * 5000, [], {}, [0], [[]], {"": 0}]
ODD_WORDS = [b"0", b"-1", b"1e30", b"-1e-30", b"1e400", b"nan", b"inf", b"2147483648", b"9" * 20, b"/", b"#"]
ODD_FLOATS = [0.0, -0.0, 1.0, -1.0, 1e-30, 1e-3, 100.0, 1e6, 1e15, 1e30, -1e30, np.inf, -np.inf, np.nan]
ODD_INTEGERS = [0, 1, 2, 6, 7, 127, 255, 256, 32767, 65535, 2**20, 2**31 - 1, 2**31, 2**32 - 1]
MAX_COPIES = 2000  # of an item of a list, or of a piece of a text


def mutate_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """A copy with one to four changes: bits, numbers of four bytes, cuts, pieces left out, doubled or moved."""
    changed = bytearray(data)
    for _ in range(min(4, rng.geometric(0.6))):
        if not changed:
            break
        at = int(rng.integers(len(changed)))
        stop = min(len(changed), at + int(2 ** rng.uniform(0, 10)))
        kind = rng.integers(9)
        if kind <= 1:
            changed[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            changed[at] = int(rng.integers(256))
        elif kind <= 4:  # numbers are mostly at multiples of four
            at -= at % 4
            value = rng.choice(len(ODD_INTEGERS))
            packed = struct.pack("<I", ODD_INTEGERS[value])
            if kind == 4:
                packed = struct.pack("<f", ODD_FLOATS[rng.choice(len(ODD_FLOATS))])
            changed[at : at + 4] = packed[: len(changed) - at]
        elif kind == 5:
            del changed[at:]
        elif kind == 6:
            del changed[at:stop]
        elif kind == 7:
            changed[at:at] = changed[at:stop]
        else:
            changed[at:stop] = rng.bytes(stop - at)
    return bytes(changed)


def mutate_text(rng: np.random.Generator, data: bytes) -> bytes:
    """A copy with one to four changes of words and lines; now and then of bytes."""
    if rng.random() < 0.2:
        return mutate_bytes(rng, data)
    for _ in range(min(4, rng.geometric(0.6))):
        words = list(re.finditer(rb"[^\s]+", data[:200_000]))
        if not words:
            break
        word = words[rng.integers(len(words))]
        other = words[rng.integers(len(words))]
        kind = rng.integers(5)
        if kind <= 1:
            data = data[: word.start()] + ODD_WORDS[rng.integers(len(ODD_WORDS))] + data[word.end() :]
        elif kind == 2:
            data = data[: word.start()] + other[0] + data[word.end() :]
        elif kind == 3:
            data = data[: word.start()] + data[word.start() + int(2 ** rng.uniform(0, 8)) :]
        else:
            piece = data[word.start() : word.start() + int(2 ** rng.uniform(0, 8))]
            data = data[: word.start()] + piece * int(2 ** rng.uniform(0, np.log2(MAX_COPIES))) + data[word.start() :]
    return data


def mutate_xml(rng: np.random.Generator, data: bytes) -> bytes:
    """A copy with one to four attributes changed, left out or moved, or elements doubled; now and then any text."""
    if rng.random() < 0.1:
        return mutate_text(rng, data)
    for _ in range(min(4, rng.geometric(0.5))):
        found = list(re.finditer(rb'[a-z]+="([^"]*)"', data))
        if not found:
            break
        one = found[rng.integers(len(found))]
        other = found[rng.integers(len(found))]
        kind = rng.integers(6)
        if kind == 0:
            data = data[: one.start()] + data[one.end() :]
        elif kind == 1:
            data = data[: one.start(1)] + other[1] + data[one.end(1) :]
        elif kind == 2:
            data = data[: one.start()] + other[0] + data[one.end() :]
        elif kind == 3:
            tags = [tag for tag in re.finditer(rb"<[a-z]+[^<>]*/>", data) if tag.start() != one.start()]
            tag = tags[rng.integers(len(tags))] if tags else one
            data = data[: tag.start()] + tag[0] * int(rng.integers(0, 4)) + data[tag.end() :]
        else:
            words = one[1].split() or [b""]
            words[rng.integers(len(words))] = ODD_WORDS[rng.integers(len(ODD_WORDS))]
            data = data[: one.start(1)] + b" ".join(words) + data[one.end(1) :]
    return data


def mutate_json(rng: np.random.Generator, document: Any) -> Any:
    """A copy with one to three changes: values replaced, left out, swapped, repeated or wrapped in lists."""
    document = copy.deepcopy(document)
    for _ in range(min(4, rng.geometric(0.6))):
        place = document
        while True:
            keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = keys[rng.integers(len(keys))]
            inner = place[key]
            if isinstance(inner, (dict, list)) and inner and rng.random() < 0.85:
                place = inner
                continue
            _change(rng, place, key)
            break
    return document


def _change(rng: np.random.Generator, place: Any, key: Any) -> None:
    """Change one entry of a JSON object or list."""
    kind = rng.integers(7)
    if kind <= 2:
        place[key] = ODD_VALUES[rng.integers(len(ODD_VALUES))]
    elif kind == 3 and type(place[key]) in (int, float) and abs(place[key]) < 1e300:
        place[key] = place[key] * float(rng.choice([-1, 0.1, 10, 1000])) + float(rng.choice([0, 1, -1]))
        if rng.random() < 0.5 and np.isfinite(place[key]):
            place[key] = round(place[key])
    elif kind == 4:
        del place[key]
    elif kind == 5 and isinstance(place, list):
        place[key:key] = [place[key]] * int(2 ** rng.uniform(0, np.log2(MAX_COPIES)))
    else:
        value = place[key]
        for _ in range(int(2 ** rng.uniform(0, 11))):
            value = [value]
            if rng.random() < 0.3:
                break
        place[key] = value


def dump(document: Any) -> bytes:
    """JSON, or as much of it as Python writes."""
    try:
        return json.dumps(document).encode()
    except RecursionError:
        return b"[" * 5000


def mutate_json_text(rng: np.random.Generator, data: bytes) -> bytes:
    """A JSON file with its content changed, or its text."""
    return dump(mutate_json(rng, json.loads(data))) if rng.random() < 0.8 else mutate_text(rng, data)


def mutate_gzip(rng: np.random.Generator, data: bytes) -> bytes:
    """A compressed JSON file with its content changed, or its bytes."""
    if rng.random() < 0.15:
        return mutate_bytes(rng, data)
    return gzip.compress(mutate_json_text(rng, gzip.decompress(data)), 1)


def mutate_glb(rng: np.random.Generator, data: bytes) -> bytes:
    """A GLB with its JSON changed, its binary chunk, or any bytes."""
    choice = rng.random()
    if choice < 0.2:
        return mutate_bytes(rng, data)
    (length,) = struct.unpack_from("<I", data, 12)
    text = data[20 : 20 + length]
    binary = data[28 + length :]
    if choice < 0.75:
        text = dump(mutate_json(rng, json.loads(text)))
    if choice > 0.6:
        binary = mutate_bytes(rng, binary)
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    head = struct.pack("<4sIIII", b"glTF", 2, 28 + len(text) + len(binary), len(text), 0x4E4F534A)
    return head + text + struct.pack("<II", len(binary), 0x004E4942) + binary


def mutate_safetensors(rng: np.random.Generator, data: bytes) -> bytes:
    """A safetensors file with its header changed, JSON inside its metadata, or any bytes."""
    choice = rng.random()
    if choice < 0.2:
        return mutate_bytes(rng, data)
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    metadata = header.get("__metadata__", {})
    inner = [key for key, value in metadata.items() if value[:1] in "{["]
    if inner and choice < 0.7:
        key = inner[rng.integers(len(inner))]
        metadata[key] = dump(mutate_json(rng, json.loads(metadata[key]))).decode()
    elif choice < 0.9:
        header = mutate_json(rng, header)
    else:
        body = mutate_bytes(rng, body)
    text = dump(header)
    return struct.pack("<Q", len(text)) + text + body


def mutate_npz(rng: np.random.Generator, data: bytes) -> bytes:
    """Arrays in a zip, one of them changed, as bytes or as numbers, with right checksums; or any bytes changed."""
    if rng.random() < 0.1:
        return mutate_bytes(rng, data)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    name = list(members)[rng.integers(len(members))]
    choice = rng.random()
    if choice < 0.4:
        members[name] = mutate_bytes(rng, members[name])
    elif choice < 0.5:
        del members[name]
    else:
        array = np.load(io.BytesIO(members[name]))
        if array.dtype.kind in "iuf" and array.size:
            flat = array.reshape(-1).copy()
            odd = ODD_FLOATS if array.dtype.kind == "f" else [number for number in ODD_INTEGERS if number < 128]
            with np.errstate(over="ignore"):
                flat[rng.integers(len(flat))] = odd[rng.integers(len(odd))]
            stream = io.BytesIO()
            np.save(stream, flat.reshape(array.shape))
            members[name] = stream.getvalue()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return stream.getvalue()


def mutate_entry(rng: np.random.Generator, data: bytes) -> bytes:
    """A cache entry with its header or its arrays changed and its checksum made right again, or with any bytes changed.

    An entry is a SHA-256 of the rest, the length of its header in eight bytes, the header in JSON, and the arrays from
    the next multiple of 64 on.
    """
    choice = rng.random()
    if choice < 0.1:
        return mutate_bytes(rng, data)
    length = int.from_bytes(data[32:40], "little")
    start = -(-(40 + length) // 64) * 64
    header = data[40 : 40 + length]
    body = data[start:]
    if choice < 0.5:
        header = dump(mutate_json(rng, json.loads(header)))
    else:
        body = mutate_bytes(rng, body)
    rest = len(header).to_bytes(8, "little") + header
    rest += bytes(-(-(32 + len(rest)) // 64) * 64 - 32 - len(rest)) + body
    return hashlib.sha256(rest).digest() + rest


def mutate_state(rng: np.random.Generator, data: bytes) -> bytes:
    """A pickled state with one to three changes: numbers in arrays, whole arrays, or values of the plans."""
    state = pickle.loads(data)
    for _ in range(min(3, rng.geometric(0.6))):
        part = list(state)[rng.integers(len(state))]
        if not isinstance(state[part], dict) or rng.random() < 0.02:
            state[part] = ODD_VALUES[rng.integers(len(ODD_VALUES))]
        elif part in ("schedule", "library"):
            state[part] = mutate_json(rng, state[part])
        elif state[part]:
            names = list(state[part])
            name = names[rng.integers(len(names))]
            state[part][name] = _changed_array(rng, state[part][name])
    return pickle.dumps(state)


def _changed_array(rng: np.random.Generator, array: Any) -> Any:
    """An array with a few odd numbers, or filled with one, or with odd bytes; now and then another value or dtype."""
    kind = rng.integers(12)
    if kind == 0 or not isinstance(array, np.ndarray) or not array.size:
        return ODD_VALUES[rng.integers(len(ODD_VALUES))]
    if kind == 1:
        return array.astype(rng.choice(["f8", "i8", "u1", "?", "f4", "O"]))
    if kind == 2:
        return array[:, None] if rng.random() < 0.5 else array[1:]
    flat = np.ascontiguousarray(array).reshape(-1).copy()
    if kind <= 4:
        flat.view(np.uint8)[rng.integers(flat.nbytes)] = rng.integers(256)
        return flat.reshape(array.shape)
    odd = ODD_FLOATS if array.dtype.kind == "f" else [*ODD_INTEGERS, -1, -2, -128, -(2**31)]
    places = slice(None) if kind <= 6 else rng.integers(len(flat), size=3)
    with np.errstate(over="ignore"):
        flat[places] = np.array(odd[rng.integers(len(odd))]).astype(array.dtype)
    return flat.reshape(array.shape)


def mutate_any(rng: np.random.Generator, data: bytes) -> bytes:
    """A JSON file with its content changed, or the bytes of another one."""
    try:
        return mutate_json_text(rng, data)
    except ValueError:
        return mutate_bytes(rng, data)


def mutate_lines(rng: np.random.Generator, data: bytes) -> bytes:
    """A file of JSON lines with one of them changed, or its text."""
    if rng.random() < 0.3:
        return mutate_text(rng, data)
    lines = data.splitlines()
    number = rng.integers(len(lines))
    lines[number] = mutate_json_text(rng, lines[number])
    return b"\n".join(lines) + b"\n"
