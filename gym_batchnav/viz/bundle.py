"""MIME bundles: the text, image and HTML page with which notebooks display an object."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Collection, Mapping
from html import escape
from typing import Any

import numpy as np
from PIL import Image

Portrait = tuple[np.ndarray | None, str]  # an image [H, W, 3] uint8 or None, and its caption or the reason for None
_MAX_FACT = 400  # characters of a fact, and of the plain text
_MAX_TEXT = 4000
# Colours are inherited from the page, so that the text is readable on light and dark backgrounds.
_CELL = "text-align:left;vertical-align:top;padding:1px 10px 1px 0;background:transparent;color:inherit;border:0"


def mime_bundle(
    text: Callable[[], str],
    title: str,
    facts: Callable[[], Mapping[str, str]],
    draw: Callable[[], Portrait],
    include: Collection[str] | None = None,
    exclude: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the result of ``_repr_mimebundle_``. It never raises, because displaying an object must not fail.

    Args:
        text: Returns the plain text.
        title: The title of the page.
        facts: Returns the rows of the table, by name; called only if more than plain text is requested.
        draw: Returns the image and its caption; called only if more than plain text is requested. If one of the three
            callables raises, the error's message replaces its result.
        include: The MIME types to return; all if not given.
        exclude: The MIME types to leave out.
    """
    requested = {kind for kind in ("text/plain", "text/html", "image/png") if not include or kind in include}
    requested -= set(exclude or ())
    bundle: dict[str, Any] = {}
    if "text/plain" in requested:
        try:
            bundle["text/plain"] = clean(text(), _MAX_TEXT)
        except Exception as error:
            bundle["text/plain"] = clean(f"{title}: {error}", _MAX_TEXT)
    if requested <= {"text/plain"}:
        return bundle
    try:
        picture, caption = draw()
        png = None if picture is None else _encoded(picture, "PNG")
        jpeg = None if picture is None else _encoded(picture, "JPEG", quality=88, subsampling=0)
    except Exception as error:
        png = jpeg = None
        caption = f"no picture: {error}"
    if "text/html" in requested:
        try:
            rows = facts()
        except Exception as error:
            rows = {"unknown": str(error)}
        bundle["text/html"] = _page(title, rows, jpeg, caption)
    if "image/png" in requested and png is not None:
        bundle["image/png"] = png
    return bundle


def clean(text: str, longest: int) -> str:
    """Replace what UTF-8 cannot encode, such as parts of file names, and shorten to ``longest`` characters."""
    return (text if len(text) <= longest else f"{text[:longest]}...").encode(errors="replace").decode()


def _page(title: str, facts: Mapping[str, str], jpeg: str | None, caption: str) -> str:
    """Return self-contained HTML; the image is embedded in base 64."""
    rows = "".join(
        f'<tr style="background:transparent"><th style="{_CELL};font-weight:600;white-space:nowrap">{_safe(name)}</th>'
        f'<td style="{_CELL}">{_safe(value)}</td></tr>'
        for name, value in facts.items()
    )
    image = ""
    if jpeg is not None:
        image = f'<img alt="{_safe(caption)}" style="max-width:100%" src="data:image/jpeg;base64,{jpeg}">'
    return (
        f'<div style="color:inherit"><div style="font-weight:600;margin-bottom:4px">{_safe(title)}</div>'
        '<div style="display:flex;flex-wrap:wrap;gap:16px;align-items:flex-start">'
        f'<div style="max-width:100%">{image}<div style="opacity:0.75">{_safe(caption)}</div></div>'
        f'<table style="border:0;margin:0;max-width:44em;overflow-wrap:anywhere">{rows}</table></div></div>'
    )


def _safe(text: str) -> str:
    """Return shortened text, escaped for HTML."""
    return escape(clean(text, _MAX_FACT))


def _encoded(picture: np.ndarray, name: str, **options: Any) -> str:
    """Return an image in a file format, encoded in base 64."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format=name, **options)
    return base64.b64encode(buffer.getvalue()).decode()
