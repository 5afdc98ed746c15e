"""Docstrings, comments, messages and pages do without phrases that are not plain English."""

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/RESULTS.md")]
FILES = sorted([*(ROOT / "gym_batchnav").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *PAGES])
INSTEAD = {  # of each phrase
    r"(?<![Tt]here )(?:is|are|was|were) no (?!longer\b|more\b|other\b|\w+er\b)\w+": "is not a ..., has no ...",
    r"There is no such\b": "unknown ...; available: ...",
    r"[Bb]eside\b": "next to, in addition to",
    r"of (?:its|their|one's) own(?= (?:that|for|in|and|to|as|is|which)\b|[^\w ]|$)": "user-defined, separate",
    r"(?:brings|brought)\b(?! an agent| it nearer)": "sets, adds",
    r"(?:takes?|took|taking) the place of\b": "replaces, overrides",
    r"(?:a|another) text\b": "a string",
    r"([A-Za-z]+) \1\b(?!/)": "once",
}
NOUN_CLAUSE = re.compile(r'\A[rf]*"""(?:What|Who|Where|How)\b')


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the first line and the contents of each comment and string of a module, or of a page without its code."""
    if path.suffix == ".md":
        code = re.compile(r"^```.*?^```|`[^`]+`", re.MULTILINE | re.DOTALL)
        yield 1, code.sub(lambda block: "``" + "\n" * block[0].count("\n"), path.read_text("utf-8"))
        return
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT or "STRING" in tokenize.tok_name[token.type]:
                yield token.start[0], re.sub(r"``[^`\n]+``", "``", token.string)


def found_in(prose: str, line: int = 1) -> list[tuple[int, str]]:
    """Return the line of each phrase, and the phrase with the words to use instead."""
    flat = re.sub(r"\s", " ", prose)  # a phrase may continue on the next line
    found = [
        (line + prose.count("\n", 0, match.start()), f"{match[0]!r}: {instead}")
        for phrase, instead in INSTEAD.items()
        for match in re.finditer(rf"\b{phrase}", flat)
    ]
    return found + [(line, "begin the docstring with a verb or a noun")] * bool(NOUN_CLAUSE.match(prose))


def test_package_and_pages_are_in_plain_english():
    found = [
        f"{path.relative_to(ROOT)}:{where}: {words}"
        for path in FILES
        for line, prose in prose_of(path)
        for where, words in found_in(prose, line)
    ]
    assert not found, "\n".join(found)


def test_phrases_are_found_and_plain_sentences_are_not():
    for prose, count in (
        ('"""What it is."""', 1),
        ("x is no scene. There is no such scene; the the file\nbeside it", 4),
        ("there is no scene and it is no longer; besides, its own text", 0),
    ):
        assert len(found_in(prose)) == count, prose
