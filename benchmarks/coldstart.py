"""Seconds from start to first output with empty caches: ``python benchmarks/coldstart.py [NAME ...]``.

Each program runs as a user would start it, with fresh folders for Numba's cache and for the package's own. Run it on a
machine that does nothing else: compiling takes all processors. The bars hold for two quiet processors.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

SCRIPT = """
import gymnasium
import gym_batchnav

envs = gymnasium.make_vec("BatchNav/PointNav-v0", num_envs=16)
observation, info = envs.reset(seed=0)
envs.step(envs.action_space.sample())
print("stepped", flush=True)
envs.close()
"""
BOX_OBJ = """
v 0 0 0
v 6 0 0
v 6 0 6
v 0 0 6
f 4 3 2 1
f 1 2 3 4
"""
COMMAND = [sys.executable, "-m", "gym_batchnav.cli"]
# By name: the arguments, the word in a line of output that ends the measurement, and the bar in seconds, if any.
PROGRAMS: dict[str, tuple[list[str], str, float | None]] = {
    "demo": ([*COMMAND, "demo", "--seconds", "1", "--out", "{folder}/demo"], "Ready after", 30.0),
    "script": ([sys.executable, "-c", SCRIPT], "stepped", 30.0),
    "scene info": ([*COMMAND, "scene", "info", "{folder}/box.obj"], "triangles", None),
    "evaluate": ([*COMMAND, "evaluate", "--episodes", "20", "--json"], "spl", None),
    "warmup": ([*COMMAND, "warmup"], "kernels", None),
}


def measure(name: str) -> dict[str, float | str | None]:
    """Start a program with empty caches; seconds to its first line of any kind, to the awaited line, and to its end.

    The awaited line of the demo comes before its first frame is drawn for the user but after all kernels it needs are
    compiled.
    """
    arguments, awaited, bar = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "box.obj").write_text(BOX_OBJ)
        environment = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/numba", "GYM_BATCHNAV_CACHE": f"{folder}/cache"}
        started = time.perf_counter()
        process = subprocess.Popen(
            [argument.replace("{folder}", folder) for argument in arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        lines: list[tuple[float, str]] = []

        def read(stream: IO[str]) -> None:
            lines.extend((time.perf_counter() - started, line) for line in stream)

        assert process.stdout is not None and process.stderr is not None
        readers = [threading.Thread(target=read, args=(stream,)) for stream in (process.stdout, process.stderr)]
        for reader in readers:
            reader.start()
        status = process.wait()
        for reader in readers:
            reader.join()
        if status:
            raise RuntimeError(f"{name} ended with {status}: {''.join(line for _, line in lines)}")
        done = min((seconds for seconds, line in lines if awaited in line), default=None)
        first = min(seconds for seconds, _ in lines)
        total = time.perf_counter() - started
    return {"program": name, "first line": first, f"'{awaited}'": done, "end": total, "bar": bar}


def main() -> None:
    """Measure the programs named on the command line, or all of them, and print one line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("names", nargs="*", choices=[*PROGRAMS, []], help="programs to measure; all by default")
    missed = False
    for name in parser.parse_args().names or list(PROGRAMS):
        figures = measure(name)
        print(
            json.dumps({key: round(value, 1) if isinstance(value, float) else value for key, value in figures.items()})
        )
        bar = PROGRAMS[name][2]
        seconds = figures[f"'{PROGRAMS[name][1]}'"]
        missed |= bar is not None and isinstance(seconds, float) and seconds > bar
    sys.exit(missed)


if __name__ == "__main__":
    main()
