"""Textures from untrusted image files: sizes are checked before pixels are decoded."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

MAX_IMAGE_PIXELS = 64 * 2**20
# Pillow keeps a pointer per row, so a picture one pixel wide takes more than its pixels. JPEG has the same limit.
MAX_IMAGE_SIDE = 2**16
MAX_COSTLY_PIXELS = 2**25  # for WebP, whose decoder keeps several copies, and for modes that must be converted
MAX_SCANS = 32  # per progressive JPEG; each scan covers all pixels, and encoders make about ten
MAX_TEXTURE_SIDE = 2048
_COSTLY_MODES = ("I", "F", "CMYK", "YCbCr", "LAB", "HSV")
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TGA", "GIF", "TIFF")
_JPEG_SCAN = b"\xff\xda"
_KTX2_MAGIC = b"\xabKTX 20\xbb\r\n\x1a\n"


class DamagedImageError(ValueError):
    """The error of an image that cannot be decoded; the message names the image and the problem."""


def open_image(data: bytes, label: str) -> Image.Image:
    """Open an image and check its size, without decoding its pixels.

    Args:
        data: The bytes of a PNG, JPEG, WebP, BMP, TGA, GIF or TIFF file.
        label: Its name in messages.

    Raises:
        DamagedImageError: If it is not such an image.
        ValueError: If it is KTX2, larger than the limits above, or has more than ``MAX_SCANS`` scans.
    """
    if data.startswith(_KTX2_MAGIC):
        raise ValueError(f"image {label} is KTX2, which is not supported: convert it to PNG or JPEG")
    try:
        image = Image.open(io.BytesIO(data), formats=_FORMATS)
    except Image.DecompressionBombError:
        raise ValueError(f"image {label} is far larger than {MAX_IMAGE_PIXELS:,} pixels: scale it down") from None
    except MemoryError:
        raise
    except Exception as error:  # Pillow's decoders raise errors of any kind for damaged files
        raise DamagedImageError(f"image {label} cannot be read ({error}): re-export it as PNG or JPEG") from error
    size = f"image {label} has {image.width}x{image.height} pixels"
    costly = image.format == "WEBP" or image.mode.split(";")[0] in _COSTLY_MODES
    most = MAX_COSTLY_PIXELS if costly else MAX_IMAGE_PIXELS
    if image.width * image.height > most:
        raise ValueError(f"{size}, the limit is {most:,}: scale it down")
    if max(image.size) > MAX_IMAGE_SIDE:
        raise ValueError(f"{size}, the limit is {MAX_IMAGE_SIDE:,} per side: scale it down")
    if image.format == "JPEG" and data.count(_JPEG_SCAN) > MAX_SCANS:
        raise ValueError(f"image {label} has more than {MAX_SCANS} scans: save it as a JPEG that is not progressive")
    return image


def decode_texture(image: Image.Image, label: str, largest: int = MAX_TEXTURE_SIDE) -> np.ndarray:
    """Decode an image that ``open_image`` opened.

    Args:
        image: The image.
        label: Its name in messages.
        largest: Pixels per side of the result; a larger image is scaled down.

    Returns:
        [H, W, 4] uint8 with row 0 at the top.

    Raises:
        DamagedImageError: If its data is damaged.
    """
    try:
        return _decode(image, largest)
    except MemoryError:
        raise
    except Exception as error:  # Pillow's decoders raise anything on damaged files
        raise DamagedImageError(f"image {label} is damaged ({error}): re-export it") from error


def _decode(image: Image.Image, largest: int) -> np.ndarray:
    longest = max(image.size)
    size = size_within(image.size, largest)
    if longest > largest:
        image.draft("RGB", size)  # decodes a JPEG file at half size or less if that is enough
    if image.mode.startswith("I"):  # 16 bits per pixel, which Pillow would clip rather than scale
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if longest > largest and not image.has_transparency_data:  # shrink it before it has four channels
        if image.mode in ("1", "P"):
            image = image.convert("L" if image.mode == "1" else "RGB")
        if image.mode in ("L", "RGB"):
            image = image.resize(size, Image.Resampling.BOX)
    if image.mode != "RGBA":
        image = image.convert("RGBA")
    if max(image.size) > largest:
        image = image.resize(size, Image.Resampling.BOX)
    return np.array(image)


def size_within(size: tuple[int, int], largest: int) -> tuple[int, int]:
    """Return a width and height in the same ratio, the longer of which is ``largest``."""
    shrink = largest / max(size)
    return max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink))


def shrunk(pixels: np.ndarray, largest: int) -> np.ndarray:
    """Return a texture [H, W, 4] uint8 scaled down to at most ``largest`` pixels per side."""
    height, width = pixels.shape[:2]
    if max(height, width) <= largest:
        return pixels
    return np.array(Image.fromarray(pixels).resize(size_within((width, height), largest), Image.Resampling.BOX))


def mask_of(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return a mask [height, width] uint8 of a texture [H, W, 4]: its alpha, or its brightness if it is opaque."""
    image = Image.fromarray(pixels)
    mask = image.convert("L") if (pixels[..., 3] == 255).all() else image.getchannel("A")
    return np.asarray(mask if mask.size == (width, height) else mask.resize((width, height)))


def encode_texture(pixels: np.ndarray, jpeg_quality: int) -> tuple[bytes, str]:
    """Encode a texture [H, W, 4] uint8 as PNG or JPEG, whichever is smaller, or as PNG if it has alpha.

    Returns:
        The bytes of the file and their MIME type.

    Raises:
        ValueError: If it has no pixels, or more than these formats support.
    """
    opaque = bool((pixels[..., 3] == 255).all())
    image = Image.fromarray(pixels[..., :3] if opaque else pixels)
    jpeg = io.BytesIO()
    quick_png = io.BytesIO()
    png = io.BytesIO()
    try:
        if opaque:
            image.save(jpeg, "JPEG", quality=jpeg_quality, optimize=True)
            image.save(quick_png, "PNG", compress_level=1)
            if jpeg.tell() < quick_png.tell() // 2:
                return jpeg.getvalue(), "image/jpeg"
        image.save(png, "PNG", optimize=True)  # slow, so only if the result may be smaller
    except (OSError, SystemError) as error:  # raised by Pillow's encoders for sizes that a format does not support
        size = f"{pixels.shape[1]}x{pixels.shape[0]}"
        raise ValueError(f"a texture of {size} pixels cannot be written as JPEG or PNG ({error}): scale it") from error
    if opaque and jpeg.tell() < png.tell():
        return jpeg.getvalue(), "image/jpeg"
    return png.getvalue(), "image/png"
