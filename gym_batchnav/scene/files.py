"""The files a scene is made of: read within one folder only, hashed as they are read, pictures decoded with bounds."""

from __future__ import annotations

import hashlib
import io
import json
import reprlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import numpy as np
from PIL import Image

MAX_FILE_BYTES = 2**31
MAX_TEXT_BYTES = 2**29  # text grows about tenfold while it is read
MAX_JSON_BYTES = 2**25  # and JSON up to thirtyfold
MAX_JSON_ITEMS = 4_000_000
MAX_IMAGE_PIXELS = 64 * 2**20
MAX_WEBP_PIXELS = 2**25  # whose decoder keeps several copies
MAX_SCANS = 32  # of a progressive JPEG, each of which goes over all pixels; encoders make ten or so
MAX_TEXTURE_SIDE = 2048
_IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TGA", "GIF", "TIFF")
_JPEG_SCAN = b"\xff\xda"
_KTX2_MAGIC = b"\xabKTX 20\xbb\r\n\x1a\n"


class SceneError(ValueError):
    """A scene that cannot be loaded or saved; the message names it, the problem and the remedy."""


class SceneFiles:
    """One scene's file and those it refers to.

    What a file names is read only from its own folder and the folders inside it: absolute paths, ``..`` and web
    addresses are refused, and so are symbolic links that lead out of that folder. Where the scene's own file is a link,
    as in the caches of download tools, the folder that it really lies in counts as well.

    Args:
        path: The scene's main file.

    Attributes:
        path: The scene's main file.
        warnings: What had to be left out or guessed, one sentence each; readers append to it.
        aloud: Those of the warnings that are also given as Python warnings; readers append to it.
        missing: Pictures that could not be read, in order; readers append to it.
        digests: SHA-256 in hexadecimal of every file asked for, by its path in the folder; "" for one that is absent.
        num_bytes: The size of all files read so far.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self.aloud: list[str] = []
        self.missing: list[str] = []
        self.digests: dict[str, str] = {}
        self.num_bytes = 0
        self._read: dict[Path, bytes] = {}
        self._folders: dict[Path, dict[str, Path]] = {}

    def main(self, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """The bytes of the scene's main file, of which there may be ``max_bytes``."""
        return self._bytes(self.path, max_bytes)

    def beside(
        self, uri: str, *, quoted: bool = False, any_case: bool = False, max_bytes: int = MAX_FILE_BYTES
    ) -> bytes:
        """The bytes of a file that the scene refers to.

        Args:
            uri: Its path relative to the scene's folder, slashes of either kind.
            quoted: Percent escapes stand for characters, as in a URI.
            any_case: Take a file whose name differs in case if there is none of this name.
            max_bytes: How large it may be.

        Raises:
            ValueError: the path leads out of the scene's folder, or the file is too large.
            FileNotFoundError: there is no such file.
        """
        relative = PurePosixPath((unquote(uri) if quoted else uri).strip().replace("\\", "/"))
        outside = relative.is_absolute() or ".." in relative.parts or ":" in str(relative) or "\0" in str(relative)
        if outside or not relative.parts:
            raise ValueError(
                f"it refers to {reprlib.repr(uri)}, which is not inside its folder: put the file beside the scene"
            )
        path = self.path.parent / relative
        if any_case and not path.exists():
            self.digests[relative.as_posix()] = ""
            path = self._in_any_case(relative.parts) or path
        real = path.resolve()
        if not any(real.is_relative_to(home) for home in (self.path.parent.resolve(), self.path.resolve().parent)):
            raise ValueError(f"it refers to {uri!r}, a link that leads out of its folder: put the file itself there")
        return self._bytes(path, max_bytes)

    def warn(self, sentence: str) -> None:
        """Add a warning that is also given as a Python warning."""
        self.warnings.append(sentence)
        self.aloud.append(sentence)

    def _in_any_case(self, parts: Sequence[str]) -> Path | None:
        """The file in the scene's folder whose path has these parts but for case, None for none."""
        found: Path | None = self.path.parent
        for part in parts:
            if found is None or not found.is_dir():
                return None
            if found not in self._folders:
                self._folders[found] = {entry.name.casefold(): entry for entry in sorted(found.iterdir())}
            found = self._folders[found].get(part.casefold())
        return found

    def _bytes(self, path: Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        if path not in self._read:
            name = path.relative_to(self.path.parent).as_posix()
            if not path.is_file():
                self.digests[name] = ""
                raise FileNotFoundError(f"{str(path)!r} does not exist or is no file")
            if path.stat().st_size > max_bytes:
                size = f"{path.name} has {path.stat().st_size:,} bytes, of which at most {max_bytes:,} are read"
                raise ValueError(f"{size}: split it, or save the scene as GLB")
            self._read[path] = path.read_bytes()
            self.num_bytes += len(self._read[path])
            self.digests[name] = hashlib.sha256(self._read[path]).hexdigest()
        return self._read[path]


def parse_json(data: bytes) -> dict[str, Any]:
    """A JSON object of bounded size, as strict as JSON is.

    Args:
        data: UTF-8, with or without a byte order mark.

    Raises:
        ValueError: it is larger than ``MAX_JSON_BYTES`` or ``MAX_JSON_ITEMS``, or no JSON object.
    """
    if len(data) > MAX_JSON_BYTES:
        raise ValueError(f"it has {len(data):,} bytes of JSON, of which at most {MAX_JSON_BYTES:,} are read: split it")
    num_items = sum(map(data.count, (b"{", b"[", b",")))  # no less; each takes a hundred bytes once it is read
    if num_items > MAX_JSON_ITEMS:
        raise ValueError(f"its JSON has {num_items:,} entries, of which at most {MAX_JSON_ITEMS:,} are read: split it")

    def refuse(name: str) -> None:
        raise ValueError(f"its JSON holds {name}")

    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=refuse)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"its JSON cannot be read ({error}): re-export it") from error
    if not isinstance(value, dict):
        raise ValueError("its JSON is not an object: re-export it")
    return value


def open_image(data: bytes, label: str) -> Image.Image:
    """A picture with its size checked and its pixels not yet decoded.

    Args:
        data: The bytes of a PNG, JPEG, WebP, BMP, TGA, GIF or TIFF file.
        label: What to call it in messages.

    Raises:
        OSError: it is no such picture.
        ValueError: it is KTX2, larger than ``MAX_IMAGE_PIXELS`` or made of more than ``MAX_SCANS``.
    """
    if data.startswith(_KTX2_MAGIC):
        raise ValueError(f"image {label} is KTX2, which is not supported: convert its textures to PNG or JPEG")
    try:
        image = Image.open(io.BytesIO(data), formats=_IMAGE_FORMATS)
    except Image.DecompressionBombError:
        raise ValueError(f"image {label} is far larger than {MAX_IMAGE_PIXELS:,} pixels: scale it down") from None
    except Exception as error:  # Pillow's decoders raise anything on damaged files
        raise OSError(f"image {label} cannot be read: {error}") from error
    most = MAX_WEBP_PIXELS if image.format == "WEBP" else MAX_IMAGE_PIXELS
    if image.width * image.height > most:
        size = f"{image.width}x{image.height} pixels"
        raise ValueError(f"image {label} has {size}, of which at most {most:,} are read: scale it down")
    if image.format == "JPEG" and data.count(_JPEG_SCAN) > MAX_SCANS:
        raise ValueError(f"image {label} has more than {MAX_SCANS} scans: save it as a JPEG that is not progressive")
    return image


def decode_texture(image: Image.Image) -> np.ndarray:
    """The pixels of a picture, at most ``MAX_TEXTURE_SIDE`` a side, as [H, W, 4] uint8 with row 0 at the top.

    Raises:
        OSError: the file is damaged.
    """
    try:
        longest = max(image.size)
        shrink = MAX_TEXTURE_SIDE / longest
        size = max(1, round(image.width * shrink)), max(1, round(image.height * shrink))
        if longest > MAX_TEXTURE_SIDE:
            image.draft("RGB", size)  # JPEG files are decoded at half size or less where that suffices
        if image.mode.startswith("I"):  # 16 bits a pixel, which Pillow would clip rather than scale
            image = Image.fromarray((np.asarray(image, np.uint32) >> 8).astype(np.uint8))
        if longest > MAX_TEXTURE_SIDE and not image.has_transparency_data:  # before there are four channels of it
            if image.mode in ("1", "P"):
                image = image.convert("L" if image.mode == "1" else "RGB")
            if image.mode in ("L", "RGB"):
                image = image.resize(size, Image.Resampling.BOX)
        if image.mode != "RGBA":
            image = image.convert("RGBA")
        if max(image.size) > MAX_TEXTURE_SIDE:
            image = image.resize(size, Image.Resampling.BOX)
        return np.array(image)
    except Exception as error:
        raise OSError(f"damaged picture: {error}") from error
