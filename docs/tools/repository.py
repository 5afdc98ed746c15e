"""A hook of MkDocs: files of the repository that pages link to become part of the site, below ``repository/``.

Links in docs/ are written as in any folder of the repository (``../benchmarks/RESULTS.md``), so they also work where
the repository itself is read. Markdown files and notebooks become pages, programs and settings become pages that show
their text, folders become lists, and other files are copied.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = "docs/"
BELOW = "repository/"
NOTEBOOK = ".ipynb"
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")  # not those with a scheme, nor those within a page
LANGUAGES = {
    ".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".sbatch": "bash", ".sh": "bash", ".cff": "yaml",
}  # fmt: skip


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add all files outside docs/ that can be reached by links from a page, or that the navigation names."""
    waiting = [f"{DOCS}{file.src_uri}" for file in files.documentation_pages()]
    waiting += [uri.removeprefix(BELOW) for uri in re.findall(rf"{BELOW}[\w./-]+", str(config.nav))]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if not path.startswith(DOCS):
            files.append(_file(path, config))
        waiting += _linked_from(path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the places that the files have in the site."""
    own_uri = page.file.src_uri
    source = own_uri.removeprefix(BELOW) if own_uri.startswith(BELOW) else f"{DOCS}{own_uri}"

    def place(path: str) -> str:
        return posixpath.relpath(_uri(path), posixpath.dirname(own_uri) or ".")

    return _with_links(markdown, source, place)


def _with_links(markdown: str, source: str, place: Callable[[str], str]) -> str:
    """Return the text of a file with ``place(path)`` for links to files that exist."""

    def replace(match: re.Match[str]) -> str:
        path = _target(source, match[2])
        return match[0] if path is None else f"{match[1]}{place(path)}{match[3] or ''}{match[4]}"

    return LINK.sub(replace, markdown)


def _target(source: str, link: str) -> str | None:
    """Return the path from the root to which a link in a file leads; None if there is no such file."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return path if not path.startswith("..") and (ROOT / path).exists() else None


def _linked_from(path: str) -> list[str]:
    """Return the files to which a page, or the list of a folder, links."""
    full = ROOT / path
    if full.is_dir():
        return [f"{path}/{one.name}" for one in _entries(full)]
    if full.suffix not in (".md", NOTEBOOK):
        return []
    found: list[str] = []

    def note(target: str) -> str:
        found.append(target)
        return target

    text = full.read_text(encoding="utf-8")
    _with_links(_notebook(text) if full.suffix == NOTEBOOK else text, path, note)
    return found


def _notebook(text: str) -> str:
    """Return the cells of a notebook and their outputs as Markdown."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"````python\n{source}\n````")
        parts += [_output(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    """Return an output of a cell as Markdown: the richest of its representations."""
    data = {kind: "".join(value) for kind, value in output.get("data", {}).items() if isinstance(value, str | list)}
    if "text/html" in data:
        return f"<div>{' '.join(data['text/html'].split())}</div>"
    for kind, value in data.items():
        if kind.startswith("image/"):
            return f'<img alt="" src="data:{kind};base64,{"".join(value.split())}">'
    return f"````text\n{data.get('text/plain', ''.join(output.get('text', ''))).rstrip()}\n````"


def _entries(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.is_file() and one.name[0] not in "._")


def _uri(path: str) -> str:
    """Return the place of a file of the repository among the sources of the site."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    full = ROOT / path
    if full.is_dir():
        return f"{BELOW}{path}/index.md"
    return f"{BELOW}{path}.md" if full.suffix in (*LANGUAGES, NOTEBOOK) else f"{BELOW}{path}"


def _file(path: str, config: MkDocsConfig) -> File:
    """Return a file of the site for a file or folder of the repository."""
    full = ROOT / path
    if full.is_dir():
        entries = "".join(f"- [{one.name}]({one.name})\n" for one in _entries(full))
        return File.generated(config, _uri(path), content=f"# {path}\n\n{entries}")
    if full.suffix == NOTEBOOK:
        return File.generated(config, _uri(path), content=_notebook(full.read_text(encoding="utf-8")))
    if full.suffix in LANGUAGES:
        text = full.read_text(encoding="utf-8").rstrip()
        shown = f"# {path}\n\n````{LANGUAGES[full.suffix]}\n{text}\n````\n"
        return File.generated(config, _uri(path), content=shown)
    return File.generated(config, _uri(path), abs_src_path=str(full))
