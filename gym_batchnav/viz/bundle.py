"""MIME bundles: how notebooks show an object, as words, as a picture, and as a page of both."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Collection, Mapping
from html import escape
from typing import Any

import numpy as np
from PIL import Image

Portrait = tuple[np.ndarray | None, str]  # a picture [H, W, 3] uint8, and what it shows or why there is none
_LONGEST, _LONGEST_TEXT = 400, 4000  # letters of a fact, and of the plain words
# Colours are those of the page around it, so that it can be read on light and on dark ones.
_CELL = "text-align:left;vertical-align:top;padding:1px 10px 1px 0;background:transparent;color:inherit;border:0"


def mime_bundle(
    say: Callable[[], str],
    title: str,
    tell: Callable[[], Mapping[str, str]],
    draw: Callable[[], Portrait],
    include: Collection[str] | None = None,
    exclude: Collection[str] | None = None,
) -> dict[str, Any]:
    """What ``_repr_mimebundle_`` is to return; to show an object must never fail.

    Args:
        say: Gives the plain words.
        title: Heads the page.
        tell: Gives its table, name by name; called only if more than plain words is wanted.
        draw: Makes the picture, likewise. What one of the three raises stands in place of what it was to
            give.
        include: The MIME types wanted; all if not given.
        exclude: Those not wanted.
    """
    wanted = {kind for kind in ("text/plain", "text/html", "image/png") if not include or kind in include}
    wanted -= set(exclude or ())
    bundle: dict[str, Any] = {}
    if "text/plain" in wanted:
        try:
            bundle["text/plain"] = clean(say(), _LONGEST_TEXT)
        except Exception as error:
            bundle["text/plain"] = clean(f"{title}: {error}", _LONGEST_TEXT)
    if wanted <= {"text/plain"}:
        return bundle
    try:
        picture, caption = draw()
        png = None if picture is None else _encoded(picture, "PNG")
        jpeg = None if picture is None else _encoded(picture, "JPEG", quality=88, subsampling=0)
    except Exception as error:
        png = jpeg = None
        caption = f"no picture: {error}"
    if "text/html" in wanted:
        try:
            facts = tell()
        except Exception as error:
            facts = {"unknown": str(error)}
        bundle["text/html"] = _page(title, facts, jpeg, caption)
    if "image/png" in wanted and png is not None:
        bundle["image/png"] = png
    return bundle


def clean(text: str, longest: int) -> str:
    """Text that can be sent as UTF-8, which the names of files need not be; cut where it has too many letters."""
    return (text if len(text) <= longest else f"{text[:longest]}...").encode(errors="replace").decode()


def _page(title: str, facts: Mapping[str, str], jpeg: str | None, caption: str) -> str:
    """HTML that refers to nothing outside it; the picture is in base 64."""
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
    """Text as HTML."""
    return escape(clean(text, _LONGEST))


def _encoded(picture: np.ndarray, name: str, **options: Any) -> str:
    """A picture in a format, in base 64."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format=name, **options)
    return base64.b64encode(buffer.getvalue()).decode()
