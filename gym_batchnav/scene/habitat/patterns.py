"""Patterns of paths in a dataset, matched in bounded time."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path

MAX_VISITED = 1_000_000  # folder entries that all patterns of a dataset may visit
MAX_PATTERNS = 10_000
MAX_PATTERN_CHARACTERS = 4096
MAX_PATTERN_PARTS = 64


class PatternSearch:
    """A finder of the files in a folder that match glob patterns.

    ``*``, ``?`` and ``[...]`` match within a name, ``**`` matches any number of folders. Names that begin with a dot
    are matched only by patterns that do. A search keeps the set of positions in the pattern that a folder may be at, so
    that it visits each folder once per pattern, however many ``**`` the pattern has.

    Args:
        folder: The folder of the dataset.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._num_visited = 0
        self._num_patterns = 0
        self._listed: dict[str, list[tuple[str, bool]]] = {}

    def files(self, pattern: str) -> Iterator[str]:
        """Yield the files that match a pattern, and those directly in the folders that match it.

        Args:
            pattern: Normalised, relative to the folder, parts separated by slashes.

        Yields:
            Paths relative to the folder, in no particular order and possibly more than once.

        Raises:
            ValueError: If the pattern, or all patterns together, exceed the limits above.
        """
        self._num_patterns += 1
        if self._num_patterns > MAX_PATTERNS:
            raise ValueError(f"its paths have more than {MAX_PATTERNS:,} patterns: list folders instead of files")
        if len(pattern) > MAX_PATTERN_CHARACTERS or pattern.count("/") >= MAX_PATTERN_PARTS:
            limits = f"{MAX_PATTERN_CHARACTERS:,} characters and {MAX_PATTERN_PARTS} parts"
            raise ValueError(f"its path {reprlib.repr(pattern)} has more than {limits}: shorten it")
        parts = [part for part in pattern.split("/") if part != "."]
        matchers = [None if part == "**" else re.compile(translate(part)).match for part in parts]
        end = len(parts)

        def reached(positions: set[int]) -> frozenset[int]:
            """Add the positions that are reached by skipping ``**``."""
            found = set(positions)
            for position in sorted(positions):
                while position < end and matchers[position] is None:
                    position += 1
                    found.add(position)
            return frozenset(found)

        waiting: list[tuple[str, frozenset[int], frozenset[str]]] = [
            ("", reached({0}), frozenset({os.path.realpath(self._folder)}))
        ]
        while waiting:
            path, positions, above = waiting.pop()
            names_folder = end in positions
            for name, is_folder in self._entries(path):
                following: set[int] = set()
                for position in positions:
                    if position == end:
                        continue
                    match = matchers[position]
                    hidden = name.startswith(".")
                    if match is None:
                        if not hidden:
                            following.add(position)
                    elif match(name) and (not hidden or parts[position].startswith(".")):
                        following.add(position + 1)
                reaches = reached(following)
                inner = f"{path}/{name}" if path else name
                if not is_folder:
                    if names_folder or end in reaches:
                        yield inner
                elif reaches:
                    real = os.path.realpath(self._folder / inner)
                    if real not in above:  # otherwise a link leads back to a folder above it
                        waiting.append((inner, reaches, above | {real}))

    def _entries(self, path: str) -> list[tuple[str, bool]]:
        """Return the names in a folder and whether each is a folder itself, and count them as visited."""
        if path not in self._listed:
            try:
                with os.scandir(self._folder / path) as entries:
                    self._listed[path] = [(entry.name, entry.is_dir()) for entry in entries]
            except OSError:  # as in glob, a folder that cannot be read matches nothing
                self._listed[path] = []
        self._num_visited += 1 + len(self._listed[path])
        if self._num_visited > MAX_VISITED:
            raise ValueError(
                f"the patterns of its paths visit more than {MAX_VISITED:,} files: list smaller or fewer folders"
            )
        return self._listed[path]
