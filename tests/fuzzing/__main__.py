"""``python -m fuzzing --count 10000 --seed 0``, run in the folder ``tests``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from fuzzing.run import Failure, fuzz
from fuzzing.samples import KINDS

OUTCOMES = ("loaded", "refused", "raised", "signal", "slow")


def main() -> int:
    """Fuzz, print a table of outcomes, and return whether any input failed."""
    parser = argparse.ArgumentParser(description="Try damaged files of every kind in processes with limits.")
    parser.add_argument("--count", type=int, default=1000, help="number of inputs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the mutations")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="kinds of files")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="folder for inputs that fail")
    arguments = parser.parse_args()
    start = time.monotonic()

    def report(number: int, failures: list[Failure]) -> None:
        if number % 100 == 0 or number == arguments.count:
            rate = number / (time.monotonic() - start)
            print(f"{number:,}/{arguments.count:,} inputs, {len(failures)} failed, {rate:.1f}/s", flush=True)

    outcomes, failures = fuzz(arguments.count, arguments.seed, arguments.kinds, arguments.keep, report)
    print(f"{'kind':<12}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES))
    for kind in arguments.kinds:
        print(f"{kind:<12}" + "".join(f"{outcomes[kind, outcome]:>10,}" for outcome in OUTCOMES))
    for failure in failures:
        print(f"{failure.kind} {failure.number}: {failure.reason[:200]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
