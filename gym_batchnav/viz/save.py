"""Pictures and clips as files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from gym_batchnav.storage import check_destination, write_atomically


def check_picture_path(path: str | Path) -> None:
    """Refuse a path that ``save_picture`` could not write, before the picture is drawn.

    Raises:
        ValueError: its ending names no format of pictures.
        OSError: no file can be written there.
    """
    check_destination(Path(path))
    _format_of(Path(path))


def save_picture(picture: np.ndarray, path: str | Path) -> None:
    """Write a picture [H, W, 3] in the format of the path's suffix; the file appears whole or not at all.

    Raises:
        ValueError: the suffix names no format of pictures.
        OSError: no file can be written there.
    """
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format=_format_of(Path(path)))
    write_atomically(Path(path), buffer.getvalue())


def save_clip(frames: Sequence[np.ndarray], path: str | Path, fps: float = 10.0) -> None:
    """Write frames [H, W, 3] as an animated GIF or PNG, by the path's suffix; the file appears whole or not at all."""
    path = Path(path)
    images = [Image.fromarray(frame) for frame in frames]
    if path.suffix.lower() == ".gif":
        # One palette for all frames, or colours flicker.
        some = np.unique(np.linspace(0, len(frames) - 1, 5).astype(int))
        palette = Image.fromarray(np.concatenate([frames[index] for index in some])).quantize(256)
        images = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    buffer = io.BytesIO()
    images[0].save(
        buffer,
        format=_format_of(path),
        save_all=True,
        append_images=images[1:],
        duration=round(1000 / fps),
        loop=0,
    )
    write_atomically(path, buffer.getvalue())


def _format_of(path: Path) -> str:
    """The name of the format that a path ends in."""
    known = Image.registered_extensions()
    found = known.get(path.suffix.lower())
    if found not in Image.SAVE:
        raise ValueError(f"cannot write '{path}': pictures do not end in {path.suffix!r}: name it .png, .jpg or .gif")
    return found
