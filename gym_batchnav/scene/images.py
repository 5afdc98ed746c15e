"""Textures from untrusted image files: sizes are checked before pixels are decoded."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from gym_batchnav.scene.formats.gltf_codecs import BASISU, KTX2_MAGIC, NO_KTX2, Ktx2Image

MAX_IMAGE_PIXELS = 64 * 2**20
# Pillow keeps a pointer per row, so a picture one pixel wide takes more than its pixels. JPEG has the same limit.
MAX_IMAGE_SIDE = 2**16
# For WebP and AVIF, whose decoders keep several copies, for modes to be converted, and for JPEGs of many scans.
MAX_COSTLY_PIXELS = 2**25
MAX_SCANS = 32  # per progressive JPEG, each of which covers all pixels
USUAL_SCANS = 12  # more than encoders make
MAX_TEXTURE_SIDE = 2048
_COSTLY_MODES = ("I", "F", "CMYK", "YCbCr", "LAB", "HSV")
_COSTLY_FORMATS = ("WEBP", "AVIF")
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TGA", "GIF", "TIFF")
_JPEG_SCAN = b"\xff\xda"
_METHODS = {True: Image.Resampling.BOX, False: Image.Resampling.NEAREST}  # for filtered textures and others


class DamagedImageError(ValueError):
    """The error of an image that cannot be decoded; the message names the image and the problem."""


def open_image(
    data: bytes, label: str, largest: int = MAX_TEXTURE_SIDE, *, decodes: bool = True
) -> Image.Image | Ktx2Image:
    """Open an image and check its size, without decoding its pixels.

    Args:
        data: The bytes of a PNG, JPEG, WebP, BMP, TGA, GIF, TIFF or KTX2 file, or of an AVIF file if Pillow reads it.
        label: Its name in messages.
        largest: Pixels per side up to which a mip level is chosen, if the file has several.
        decodes: Whether its pixels are wanted too, so that it must be possible to decode it here.

    Raises:
        DamagedImageError: If it is not such an image.
        ValueError: If it is KTX2 and opengl-basisu is not installed, if it is larger than the limits above, or if it
            has more than ``MAX_SCANS`` scans.
    """
    if data.startswith(KTX2_MAGIC):
        return _open_ktx2(data, label, largest, decodes)
    try:
        image = Image.open(io.BytesIO(data), formats=(*_FORMATS, *(("AVIF",) if can_decode_avif() else ())))
    except Image.DecompressionBombError:
        raise ValueError(f"image {label} is far larger than {MAX_IMAGE_PIXELS:,} pixels: scale it down") from None
    except MemoryError:
        raise
    except Exception as error:  # Pillow's decoders raise errors of any kind for damaged files
        raise DamagedImageError(f"image {label} cannot be read ({error}): re-export it as PNG or JPEG") from error
    scans = data.count(_JPEG_SCAN) if image.format == "JPEG" else 0
    costly = image.format in _COSTLY_FORMATS or image.mode.split(";")[0] in _COSTLY_MODES or scans > USUAL_SCANS
    _check_size(image.width, image.height, MAX_COSTLY_PIXELS if costly else MAX_IMAGE_PIXELS, label)
    if scans > MAX_SCANS:
        raise ValueError(f"image {label} has more than {MAX_SCANS} scans: save it as a JPEG that is not progressive")
    return image


def can_decode_avif() -> bool:
    """Return whether this build of Pillow reads AVIF."""
    return "AVIF" in Image.registered_extensions().values()


def _open_ktx2(data: bytes, label: str, largest: int, decodes: bool) -> Ktx2Image:
    if decodes and not BASISU.is_found():
        raise ValueError(BASISU.missing(f"image {label} is KTX2, which", NO_KTX2))
    try:
        image = Ktx2Image(data, largest)
    except ValueError as error:
        raise DamagedImageError(f"image {label} cannot be read ({error}): re-export it as PNG or JPEG") from error
    _check_size(image.width, image.height, MAX_COSTLY_PIXELS, label)
    return image


def _check_size(width: int, height: int, max_pixels: int, label: str) -> None:
    size = f"image {label} has {width}x{height} pixels"
    if width * height > max_pixels:
        raise ValueError(f"{size}, the limit is {max_pixels:,}: scale it down")
    if max(width, height) > MAX_IMAGE_SIDE:
        raise ValueError(f"{size}, the limit is {MAX_IMAGE_SIDE:,} per side: scale it down")


def decode_texture(
    image: Image.Image | Ktx2Image, label: str, largest: int = MAX_TEXTURE_SIDE, filtered: bool = True
) -> np.ndarray:
    """Decode an image that ``open_image`` opened.

    Args:
        image: The image.
        label: Its name in messages.
        largest: Pixels per side of the result; a larger image is scaled down.
        filtered: Whether it is scaled by averages; otherwise some of its pixels are left out.

    Returns:
        [H, W, 4] uint8 with row 0 at the top.

    Raises:
        DamagedImageError: If its data is damaged.
    """
    try:
        return _decode(Image.fromarray(image.decode()) if isinstance(image, Ktx2Image) else image, largest, filtered)
    except MemoryError:
        raise
    except Exception as error:  # decoders raise anything on damaged files
        raise DamagedImageError(f"image {label} is damaged ({error}): re-export it") from error


def _decode(image: Image.Image, largest: int, filtered: bool) -> np.ndarray:
    longest = max(image.size)
    size = size_within(image.size, largest)
    if longest > largest and filtered:
        image.draft("RGB", size)  # decodes a JPEG file at half size or less if that is enough
    if image.mode.startswith("I"):  # 16 bits per pixel, which Pillow would clip rather than scale
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if longest > largest and not image.has_transparency_data:  # shrink it before it has four channels
        if image.mode in ("1", "P"):
            image = image.convert("L" if image.mode == "1" else "RGB")
        if image.mode in ("L", "RGB"):
            image = image.resize(size, _METHODS[filtered])
    if image.mode != "RGBA":
        image = image.convert("RGBA")
    return np.array(_resized(image, size, filtered) if max(image.size) > largest else image)


def _resized(image: Image.Image, size: tuple[int, int], filtered: bool) -> Image.Image:
    """Resize an RGBA image by channel: Pillow would weight colours by alpha, which has no meaning in opaque materials.

    ``build_texture_pool`` does not weight them either.
    """
    return Image.merge("RGBA", [image.getchannel(name).resize(size, _METHODS[filtered]) for name in "RGBA"])


def size_within(size: tuple[int, int], largest: int) -> tuple[int, int]:
    """Return a width and height in the same ratio, the longer of which is ``largest``."""
    shrink = largest / max(size)
    return max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink))


def shrunk(pixels: np.ndarray, largest: int, filtered: bool = True) -> np.ndarray:
    """Return a texture [H, W, 4] uint8 scaled down to at most ``largest`` pixels per side; see ``decode_texture``."""
    height, width = pixels.shape[:2]
    if max(height, width) <= largest:
        return pixels
    return np.array(_resized(Image.fromarray(pixels), size_within((width, height), largest), filtered))


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
        raise ValueError(f"a texture of {size} pixels cannot be written ({error}): scale it down") from error
    if opaque and jpeg.tell() < png.tell():
        return jpeg.getvalue(), "image/jpeg"
    return png.getvalue(), "image/png"
