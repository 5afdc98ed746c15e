"""Textures from image files that are not trusted: sizes are checked before pixels are decoded."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

MAX_IMAGE_PIXELS = 64 * 2**20
# Pillow keeps a pointer for every row, so that a picture one pixel wide costs more than its pixels. JPEG ends here too.
MAX_IMAGE_SIDE = 2**16
MAX_COSTLY_PIXELS = 2**25  # of WebP, whose decoder keeps several copies, and of modes of 4 bytes that are converted
MAX_SCANS = 32  # of a progressive JPEG, each of which goes over all pixels; encoders make ten or so
MAX_TEXTURE_SIDE = 2048
_COSTLY_MODES = ("I", "F", "CMYK", "YCbCr", "LAB", "HSV")
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TGA", "GIF", "TIFF")
_JPEG_SCAN = b"\xff\xda"
_KTX2_MAGIC = b"\xabKTX 20\xbb\r\n\x1a\n"


class DamagedImageError(ValueError):
    """An image that cannot be decoded; the message names it and the problem."""


def open_image(data: bytes, label: str) -> Image.Image:
    """Open an image with its size checked and its pixels not yet decoded.

    Args:
        data: The bytes of a PNG, JPEG, WebP, BMP, TGA, GIF or TIFF file.
        label: Its name in messages.

    Raises:
        DamagedImageError: It is no such image.
        ValueError: It is KTX2, larger than the limits above, or made of more than ``MAX_SCANS`` scans.
    """
    if data.startswith(_KTX2_MAGIC):
        raise ValueError(f"image {label} is KTX2, which is not supported: convert its textures to PNG or JPEG")
    try:
        image = Image.open(io.BytesIO(data), formats=_FORMATS)
    except Image.DecompressionBombError:
        raise ValueError(f"image {label} is far larger than {MAX_IMAGE_PIXELS:,} pixels: scale it down") from None
    except MemoryError:
        raise
    except Exception as error:  # Pillow's decoders raise anything on damaged files
        raise DamagedImageError(f"image {label} cannot be read ({error}): re-export it as PNG or JPEG") from error
    size = f"image {label} has {image.width}x{image.height} pixels"
    costly = image.format == "WEBP" or image.mode.split(";")[0] in _COSTLY_MODES
    most = MAX_COSTLY_PIXELS if costly else MAX_IMAGE_PIXELS
    if image.width * image.height > most:
        raise ValueError(f"{size}, of which at most {most:,} are read: scale it down")
    if max(image.size) > MAX_IMAGE_SIDE:
        raise ValueError(f"{size}, of which at most {MAX_IMAGE_SIDE:,} a side are read: scale it down")
    if image.format == "JPEG" and data.count(_JPEG_SCAN) > MAX_SCANS:
        raise ValueError(f"image {label} has more than {MAX_SCANS} scans: save it as a JPEG that is not progressive")
    return image


def decode_texture(image: Image.Image, label: str) -> np.ndarray:
    """Decode an image that ``open_image`` opened.

    Args:
        image: The image.
        label: Its name in messages.

    Returns:
        [H, W, 4] uint8 with row 0 at the top, scaled down to at most ``MAX_TEXTURE_SIDE`` a side.

    Raises:
        DamagedImageError: Its data is damaged.
    """
    try:
        return _decode(image)
    except MemoryError:
        raise
    except Exception as error:  # Pillow's decoders raise anything on damaged files
        raise DamagedImageError(f"image {label} is damaged ({error}): re-export it") from error


def _decode(image: Image.Image) -> np.ndarray:
    longest = max(image.size)
    shrink = MAX_TEXTURE_SIDE / longest
    size = max(1, round(image.width * shrink)), max(1, round(image.height * shrink))
    if longest > MAX_TEXTURE_SIDE:
        image.draft("RGB", size)  # JPEG files are decoded at half size or less where that suffices
    if image.mode.startswith("I"):  # 16 bits a pixel, which Pillow would clip rather than scale
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
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


def mask_of(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """A mask [height, width] uint8 from a texture [H, W, 4]: its alpha, or its brightness where all of it is opaque."""
    image = Image.fromarray(pixels)
    mask = image.convert("L") if (pixels[..., 3] == 255).all() else image.getchannel("A")
    return np.asarray(mask if mask.size == (width, height) else mask.resize((width, height)))


def encode_texture(pixels: np.ndarray, jpeg_quality: int) -> tuple[bytes, str]:
    """A texture [H, W, 4] uint8 as a file's bytes and their MIME type.

    It becomes the smaller of PNG and JPEG, and PNG if it has alpha.

    Raises:
        ValueError: It has no pixels, or more than these formats hold.
    """
    opaque = bool((pixels[..., 3] == 255).all())
    image = Image.fromarray(pixels[..., :3] if opaque else pixels)
    jpeg, quick_png, png = io.BytesIO(), io.BytesIO(), io.BytesIO()
    try:
        if opaque:
            image.save(jpeg, "JPEG", quality=jpeg_quality, optimize=True)
            image.save(quick_png, "PNG", compress_level=1)
            if jpeg.tell() < quick_png.tell() // 2:
                return jpeg.getvalue(), "image/jpeg"
        image.save(png, "PNG", optimize=True)  # slow, so only where it may well be the smaller
    except (OSError, SystemError) as error:  # Pillow's encoders raise these for sizes that a format cannot hold
        size = f"{pixels.shape[1]}x{pixels.shape[0]}"
        raise ValueError(f"a texture of {size} pixels cannot be written as JPEG or PNG ({error}): scale it") from error
    if opaque and jpeg.tell() < png.tell():
        return jpeg.getvalue(), "image/jpeg"
    return png.getvalue(), "image/png"
