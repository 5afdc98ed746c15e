"""The time to generate a home, against the target of 2 s.

python benchmarks/generate.py
"""

from __future__ import annotations

import time
from typing import Any

from gym_batchnav.homes import generate_apartment

BAR = 2.0  # seconds
SIZES: tuple[dict[str, Any], ...] = (
    {"area": 70},
    {"area": 400, "storeys": 2},
    {"area": 25, "triangles": 1_000_000},
    {"area": 70, "triangles": 1_000_000},
    {"area": 400, "storeys": 1, "triangles": 1_000_000},
    {"area": 400, "storeys": 2, "triangles": 1_000_000},
)
SEEDS = range(4)


def main() -> None:
    generate_apartment(0, triangles=5_000)
    for options in SIZES:
        times = []
        counts = []
        for seed in SEEDS:
            start = time.perf_counter()
            home = generate_apartment(seed, **options)
            times.append(time.perf_counter() - start)
            counts.append(len(home.triangles))
        size = ", ".join(f"{key}={value:,}" for key, value in options.items())
        taken = f"{min(times):.2f} to {max(times):.2f} s"
        found = f"{min(counts):,} to {max(counts):,} triangles"
        print(f"{size}: {taken} (bar {BAR:g} s), {found}")


if __name__ == "__main__":
    main()
