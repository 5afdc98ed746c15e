"""MIME bundles: the text, picture and page with which notebooks display an object."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Collection, Mapping
from html import escape
from typing import Any

import numpy as np
from PIL import Image

Portrait = tuple[np.ndarray | None, str]  # a picture [H, W, 3] uint8, and its caption or the reason why there is none
_LONGEST, _LONGEST_TEXT = 400, 4000  # letters of a fact, and of the plain text
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
    """The value for ``_repr_mimebundle_`` to return. It never raises: displaying an object must not fail.

    Args:
        say: Returns the plain text.
        title: The title of the page.
        tell: Returns the table of the page, by name; called only if more than plain text is requested.
        draw: Returns the image and its caption; called only if more than plain text is requested. If one of the three
            callables raises, the error's message replaces its result.
        include: The MIME types to return; all if not given.
        exclude: The MIME types to leave out.
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
    """Text that can be sent as UTF-8, which file names need not be; shortened to ``longest`` letters."""
    return (text if len(text) <= longest else f"{text[:longest]}...").encode(errors="replace").decode()


def _page(title: str, facts: Mapping[str, str], jpeg: str | None, caption: str) -> str:
    """Self-contained HTML; the picture is embedded in base 64."""
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
