"""Statistics of features as LeRobot has them: per episode, and combined by weight."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
_MAX_IMAGES = 100  # of an episode, in equal distances
_MAX_VALUES = 2**16  # per channel of the images of an episode

Stats = dict[str, np.ndarray]  # by name: min, max, mean, std, count and the quantiles


def column_stats(values: np.ndarray) -> Stats:
    """Return the statistics [D] of a column [T], [T, D] or [T, ..., D]; values that are not finite are left out."""
    rows = values.reshape(len(values), -1) if values.ndim < 3 else values.reshape(-1, values.shape[-1])
    rows = rows.astype(np.float64)
    if np.isfinite(rows).all():
        return {**_rows_stats(rows), "count": np.array([len(values)])}
    kept = [column[np.isfinite(column)] for column in rows.T]
    each = [_rows_stats((column if len(column) else np.zeros(1))[:, None]) for column in kept]
    return {**{name: np.concatenate([one[name] for one in each]) for name in each[0]}, "count": np.array([len(values)])}


def image_stats(images: np.ndarray, scale: float = 1.0) -> Stats:
    """Return the statistics [C, 1, 1] of images [T, H, W, C], divided by ``scale``, from a sample of their pixels."""
    count, height, width, channels = images.shape
    chosen = np.linspace(0, count - 1, min(count, _MAX_IMAGES)).round().astype(int)
    stride = int(np.ceil(np.sqrt(len(chosen) * height * width / _MAX_VALUES)))
    stride = max(1, min(stride, height, width))
    sample = images[chosen, ::stride, ::stride]
    counted = _counted_stats if sample.dtype == np.uint8 else _rows_stats
    stats = counted(sample.reshape(-1, channels))
    scaled = {name: (value / scale).reshape(channels, 1, 1) for name, value in stats.items()}
    return {**scaled, "count": np.array([len(chosen)])}


def combine(parts: list[Stats]) -> Stats:
    """Return the statistics of several parts together; quantiles are averaged by weight, as LeRobot does."""
    counts = np.array([part["count"][0] for part in parts], np.float64)
    weight = (counts / counts.sum()).reshape((-1,) + (1,) * parts[0]["mean"].ndim)
    means = np.stack([part["mean"] for part in parts])
    mean = (means * weight).sum(axis=0)
    spread = np.stack([part["std"] for part in parts]) ** 2 + (means - mean) ** 2
    combined = {
        "min": np.min([part["min"] for part in parts], axis=0),
        "max": np.max([part["max"] for part in parts], axis=0),
        "mean": mean,
        "std": np.sqrt((spread * weight).sum(axis=0)),
        "count": np.array([int(counts.sum())]),
    }
    return combined | {name: (np.stack([part[name] for part in parts]) * weight).sum(axis=0) for name in QUANTILES}


def plain(stats: Mapping[str, np.ndarray]) -> dict[str, list]:
    """Return statistics as JSON has them."""
    return {name: value.tolist() for name, value in stats.items()}


def _rows_stats(rows: np.ndarray) -> Stats:
    """Return the statistics [D] of rows [M, D], but for their number; quantiles are interpolated, as by NumPy's."""
    mean = rows.mean(axis=0, dtype=np.float64)
    spread = rows.std(axis=0, dtype=np.float64)
    stats = {"min": rows.min(axis=0), "max": rows.max(axis=0), "mean": mean, "std": spread}
    # np.quantile takes up to twice as long, for small columns as for images.
    places = np.array(list(QUANTILES.values())) * (len(rows) - 1)
    below = places.astype(np.int64)
    above = np.minimum(below + 1, len(rows) - 1)
    ranked = np.partition(rows, np.union1d(below, above), axis=0)
    low = ranked[below].astype(np.float64)
    quantiles = low + (places - below)[:, None] * (ranked[above] - low)
    stats |= dict(zip(QUANTILES, quantiles, strict=True))
    return {name: value.astype(np.float64, copy=False) for name, value in stats.items()}


def _counted_stats(rows: np.ndarray) -> Stats:
    """Return ``_rows_stats`` of bytes by counting how often each value occurs, which needs no sorting."""
    columns = []
    values = np.arange(256, dtype=np.float64)
    for column in rows.T:
        counts = np.bincount(column, minlength=256)
        shares = counts / counts.sum()
        found = np.flatnonzero(counts)
        mean = float(shares @ values)
        spread = float(shares @ (values - mean) ** 2)
        ranks = np.searchsorted(counts.cumsum(), np.array(list(QUANTILES.values())) * (len(column) - 1), side="right")
        columns.append([found[0], found[-1], mean, np.sqrt(spread), *ranks])
    return dict(zip(("min", "max", "mean", "std", *QUANTILES), np.array(columns, np.float64).T, strict=True))
