"""What renderers have the scene library prepare; kernels stand elsewhere, so that they do not depend on the library."""

from __future__ import annotations

from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.loader import Preparer


class Preparations:
    """What a renderer has libraries prepare of each scene: every preparer is registered once, for all targets."""

    def __init__(self) -> None:
        self._keys: dict[tuple[SceneLibrary, Preparer], int] = {}

    def has(self, library: SceneLibrary, preparer: Preparer) -> bool:
        """Return whether a preparer is registered with a library."""
        return (library, preparer) in self._keys

    def keys(self, library: SceneLibrary, *preparers: Preparer) -> list[int]:
        """Return the library's keys of preparers, which are registered now if they were not."""
        new = [one for one in preparers if (library, one) not in self._keys]
        for preparer, key in zip(new, library.add_preparers(new), strict=True):
            self._keys[library, preparer] = key
        return [self._keys[library, one] for one in preparers]

    def release(self) -> None:
        """Remove all preparers from their libraries."""
        for (library, _), key in self._keys.items():
            library.remove_preparer(key)
        self._keys.clear()
