"""Targets, which are the same for all renderers, and what those that trace rays share.

No kernel imports this module, so that kernels do not depend on the library.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Any, Protocol

import numpy as np
from typing_extensions import override

from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.loader import Preparer
from gym_batchnav.render.api import Renderer
from gym_batchnav.render.bodies import BodyViews
from gym_batchnav.render.records import SurfacePreparer
from gym_batchnav.scene.categories import SemanticIds


class Drawing(Protocol):
    """The part of a target that differs between renderers; the target has checked all arguments."""

    def begin(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews) -> Any:
        """Start drawing slots [n] int64 and views [n, 4, 4] float32, in C order, and return what ``finish`` needs."""

    def finish(self, batch: Any) -> dict[str, Any]:
        """Wait for the images of a batch and return them."""

    def close(self) -> None:
        """Release the images."""


class Target:
    """A render target: one caller draws up to ``num_views`` views at a time through one camera.

    A batch is in flight between its ``begin`` and its ``finish``. Two batches may be in flight at once (one if
    ``buffers`` is 1), so that batch t is read while batch t + 1 is drawn: begin(t), begin(t + 1), finish() returns t,
    begin(t + 2), ... Images are kept in a ring of ``buffers`` sets: begin(t + ``buffers``) overwrites those of batch t.
    """

    def __init__(self, renderer: Renderer, drawing: Drawing, num_views: int, buffers: int) -> None:
        self.num_views = num_views
        self._renderer = renderer
        self._drawing = drawing
        self._most_in_flight = most_in_flight(buffers)
        self._in_flight: deque[Any] = deque()
        self._closed = False

    def render(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews | None = None) -> dict[str, Any]:
        """Draw every view: ``begin``, then ``finish``.

        Args:
            slots: [n] int, the slot whose scene each view shows; n is at most ``num_views``.
            views: [n, 4, 4] float32, world-to-camera, rigid.
            bodies: Moving bodies to draw over the scenes; None for none.

        Returns:
            One array per sensor, [n, H, W, channels]; see ``SENSOR_FORMATS``. With ``device="cuda"`` they are torch
            tensors on that device, which ``close`` invalidates.

        Raises:
            ValueError: If a view is not rigid, or as ``begin`` does.
            RuntimeError: If a batch is in flight, or as ``begin`` and ``finish`` do.
        """
        if self._in_flight:
            raise RuntimeError("render while a batch is in flight: call finish first")
        self._check(slots, views, bodies)
        check_rigid(views)
        self.begin(slots, views, bodies)
        return self.finish()

    def begin(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews | None = None) -> None:
        """Start drawing: the first half of ``render``.

        Views are not checked to be rigid, because a step computes them itself. Other views give meaningless images, but
        no unsafe access.

        Raises:
            ValueError: If a shape, type or slot is wrong, or a slot is empty; no batch is then begun.
            RuntimeError: If ``finish`` must be called first, the target or its renderer is closed, the process was
                forked, or another thread uses the renderer.
        """
        self._check_usable()
        if len(self._in_flight) >= self._most_in_flight:
            raise RuntimeError(f"begin with {len(self._in_flight)} in flight: call finish before the next begin")
        bodies = self._check(slots, views, bodies)
        # Always copies: kernels would be compiled again for arrays that are read-only or not contiguous.
        slots = np.array(slots, np.int64, order="C")
        shapes = self._renderer.bodies or self._renderer.library  # without bodies nothing is looked up
        for library, used in ((self._renderer.library, slots), (shapes, np.asarray(bodies.slot, np.int64))):
            for slot in np.flatnonzero(np.bincount(used)).tolist():
                library.scene(slot)  # raises an error for an empty slot
        views = np.array(views, np.float32, order="C")
        self._in_flight.append(self._drawing.begin(slots, views, bodies))

    def finish(self) -> dict[str, Any]:
        """Wait for the images of the oldest batch in flight and return them: the second half of ``render``.

        Raises:
            RuntimeError: If no batch is in flight, the target or its renderer is closed, the process was forked,
                another thread uses the renderer, or the device failed.
        """
        self._check_usable()
        if not self._in_flight:
            raise RuntimeError("finish without begin: call begin(slots, views) first")
        return self._drawing.finish(self._in_flight.popleft())

    def close(self) -> None:
        """Release the target; idempotent."""
        if not self._closed:
            self._drawing.close()
        self._closed = True
        self._in_flight.clear()

    def _check_usable(self) -> None:
        """Raise RuntimeError if the target or its renderer is closed, or if called in another process or thread."""
        self._renderer.check_open()
        if self._closed:
            raise RuntimeError(f"this {self._renderer.name} target is closed: make a new one with renderer.target")
        self._renderer.claim.claim_thread(f"drawing with renderer={self._renderer.name!r}")

    def _check(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews | None) -> BodyViews:
        """Return the bodies; raise ValueError unless all shapes, types and slots are valid."""
        check_slots(slots, views, self._renderer.library.num_slots, self.num_views)
        bodies = BodyViews.none() if bodies is None else bodies
        shapes = self._renderer.bodies
        bodies.check(len(slots), 0 if shapes is None else shapes.num_slots)
        return bodies


def most_in_flight(buffers: int) -> int:
    """Return the number of batches that may be in flight on a target with ``buffers`` sets of images."""
    return min(2, buffers)


def check_slots(slots: np.ndarray, views: np.ndarray, num_slots: int, num_views: int) -> None:
    """Raise ValueError unless shapes, types and slots are valid, so that no kernel reads outside its arrays.

    Slots are integers [n] of which each is below ``num_slots``; views are floats [n, 4, 4], at most ``num_views``.
    """
    slots = np.asarray(slots)
    views = np.asarray(views)
    count = len(views) if views.ndim else 0
    if not 1 <= count <= num_views or views.shape != (count, 4, 4) or views.dtype.kind != "f":
        raise ValueError(f"views are {views.dtype} {views.shape}: pass float32 (n, 4, 4) with n from 1 to {num_views}")
    if slots.shape != (count,) or slots.dtype.kind not in "iu":
        raise ValueError(f"slots are {slots.dtype} {slots.shape}: pass integers ({count},)")
    if slots.min() < 0 or slots.max() >= num_slots:
        first = int(np.argmax((slots < 0) | (slots >= num_slots)))
        raise ValueError(f"slots[{first}] = {slots[first]}: the library has slots 0 to {num_slots - 1}")


def check_rigid(views: np.ndarray) -> None:
    """Raise ValueError, naming the first faulty view, unless views [n, 4, 4] are rigid world-to-camera matrices."""
    views = np.asarray(views)
    rotation = views[:, :3, :3]
    with np.errstate(invalid="ignore", over="ignore"):  # NaN fails every comparison below
        skew = np.abs(rotation @ rotation.transpose(0, 2, 1) - np.eye(3, dtype=views.dtype)).max(axis=(1, 2))
        x, y, z = rotation.transpose(1, 0, 2)
        across = x[:, [1, 2, 0]] * y[:, [2, 0, 1]] - x[:, [2, 0, 1]] * y[:, [1, 2, 0]]  # in a third of np.cross's time
        mirrored = (across * z).sum(axis=1) < 0
        rigid = (skew <= 1e-3) & ~mirrored & np.isfinite(views[:, :3, 3]).all(axis=1)
        rigid &= (np.abs(views[:, 3] - np.array([0, 0, 0, 1], views.dtype)) <= 1e-3).all(axis=1)
    if not rigid.all():
        first = int(np.argmin(rigid))
        raise ValueError(f"views[{first}] is not a rigid world-to-camera matrix:\n{views[first]}")


class RayTracer(Renderer):
    """A renderer whose kernels read a table of a library's slots; subclasses prepare and fill it."""

    def __init__(
        self, library: SceneLibrary, semantic_ids: SemanticIds | None = None, bodies: SceneLibrary | None = None
    ) -> None:
        super().__init__(library, semantic_ids, bodies)
        self._keys: dict[tuple[SceneLibrary, Preparer], int] = {}  # of preparers in libraries
        self._tables: dict[tuple[SceneLibrary, bool, int, bool], tuple[int, Any]] = {}  # with their generations

    @abstractmethod
    def geometry_preparer(self, semantic_ids: SemanticIds, cull: bool) -> Preparer:
        """Return the preparer of trees; with ``cull`` rays pass through single-sided triangles from behind."""

    @abstractmethod
    def fill_table(self, library: SceneLibrary, cull: bool, size: int, rows: list[tuple[Any, Any]]) -> Any:
        """Return the table of a library, given the results of both preparers for every slot, None for empty slots."""

    def slot_table(self, library: SceneLibrary, cull: bool, size: int, masked_only: bool) -> Any:
        """Return the table of the scenes or the bodies, updated to what is resident now.

        ``cull`` is of ``geometry_preparer``, and the others are fields of ``SurfacePreparer``.
        """
        needs = (library, cull, size, masked_only)
        if needs not in self._tables or self._tables[needs][0] != library.generation:
            ids = self.semantic_ids if library is self.library else SemanticIds()  # a whole body has one id
            has_full = (library, SurfacePreparer(size, masked_only=False)) in self._keys
            preparers = (self.geometry_preparer(ids, cull), SurfacePreparer(size, masked_only and not has_full))
            new = [one for one in preparers if (library, one) not in self._keys]
            if new:
                made = zip(new, library.add_preparers(new), strict=True)
                self._keys |= {(library, preparer): key for preparer, key in made}
            trees, surfaces = (self._keys[library, one] for one in preparers)
            slots = range(library.num_slots)
            rows = [(library.prepared(slot, trees), library.prepared(slot, surfaces)) for slot in slots]
            table = library.generation, self.fill_table(library, cull, size, rows)
            # Older tables would keep scenes that have left.
            current = {one: held for one, held in self._tables.items() if held[0] == one[0].generation}
            self._tables = {**current, needs: table}
        return self._tables[needs][1]

    @override
    def close(self) -> None:
        self._closed = True
        for (library, _), key in self._keys.items():
            library.remove_preparer(key)
        self._keys.clear()
        self._tables.clear()
