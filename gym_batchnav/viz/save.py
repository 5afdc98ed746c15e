"""Write images and clips to files."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.storage import check_destination, write_atomically
from gym_batchnav.viz.marks import BACKGROUND

# Codec and quality options by suffix.
_CODECS = {
    ".mp4": ("libx264", ["-crf", "20", "-preset", "medium"]),
    ".webm": ("libvpx-vp9", ["-crf", "30", "-b:v", "0"]),
}


def check_picture_path(path: str | Path) -> None:
    """Raise an error unless ``save_picture`` can write the path; call it before drawing.

    Raises:
        ValueError: The suffix is not that of an image format.
        OSError: The file cannot be written.
    """
    check_destination(Path(path))
    _format_of(Path(path))


def save_picture(picture: np.ndarray, path: str | Path) -> None:
    """Write a picture [H, W, 3] in the format of the path's suffix; the file appears whole or not at all.

    Raises:
        ValueError: The suffix is not that of an image format.
        OSError: The file cannot be written.
    """
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format=_format_of(Path(path)))
    write_atomically(Path(path), buffer.getvalue())


def save_clip(frames: Sequence[np.ndarray], path: str | Path, fps: float = 10.0) -> None:
    """Write frames [H, W, 3] uint8 as a clip; the file appears whole or not at all.

    Args:
        frames: One or more, all of the same size.
        path: The suffix chooses the format: ``.gif``, ``.png`` (animated), or ``.mp4`` and ``.webm``, which need the
            extra ``[viz]``. Videos have even sizes: an odd one is padded by a row or a column of the background.
        fps: Frames per second.

    Raises:
        ValueError: There is no frame, sizes differ, or the suffix is not that of a known format.
        MissingExtraError: The extra is not installed.
        OSError: The file cannot be written.
    """
    path = Path(path)
    check_destination(path)
    sizes = {frame.shape for frame in frames}
    if len(sizes) != 1:
        raise ValueError(
            f"cannot write '{path}': frames of sizes {sorted(sizes)}; pass one or more frames of the same size"
        )
    video = path.suffix.lower() in _CODECS
    write_atomically(path, _video(frames, path.suffix.lower(), fps) if video else _animation(frames, path, fps))


def _video(frames: Sequence[np.ndarray], suffix: str, fps: float) -> bytes:
    """Encode a video in the container format of a suffix."""
    height, width = frames[0].shape[:2]
    padding = ((0, height % 2), (0, width % 2), (0, 0))
    even = np.stack([np.pad(frame, padding, constant_values=BACKGROUND[0]) for frame in frames])
    codec, quality = _CODECS[suffix]
    with tempfile.TemporaryDirectory() as folder, needs_extra("viz", f"a clip in {suffix}"):
        import imageio.v3 as iio

        film = Path(folder) / f"film{suffix}"
        iio.imwrite(
            film, even, plugin="FFMPEG", fps=fps, codec=codec, quality=None, macro_block_size=2, output_params=quality
        )
        return film.read_bytes()


def _animation(frames: Sequence[np.ndarray], path: Path, fps: float) -> bytes:
    """Encode an animated image in the format of the path's suffix."""
    name = _format_of(path)
    images = [Image.fromarray(frame) for frame in frames]
    if name == "GIF":
        # All frames share one palette, since colours would flicker otherwise.
        samples = np.unique(np.linspace(0, len(frames) - 1, 5).astype(int))
        palette = Image.fromarray(np.concatenate([frames[index] for index in samples])).quantize(256)
        images = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    buffer = io.BytesIO()
    images[0].save(buffer, format=name, save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0)
    return buffer.getvalue()


def _format_of(path: Path) -> str:
    """Return the name of the image format of the path's suffix."""
    known = Image.registered_extensions()
    found = known.get(path.suffix.lower())
    if found not in Image.SAVE:
        raise ValueError(
            f"cannot write '{path}': {path.suffix!r} is not the suffix of an image format; use .png, .jpg or .gif "
            "(clips also .mp4 or .webm)"
        )
    return found
