"""``gym-batchnav tune`` beside random search and Optuna's TPE: frames/s of the choice, and what it cost to find it.

python benchmarks/tuning.py --runs runs.jsonl             # explore, then compare; about an hour on two cores
python benchmarks/tuning.py --runs runs.jsonl --explore 0 # compare only, with the runs of before
python benchmarks/tuning.py --runs runs.jsonl --max-envs 1024 --explore 14 --trials 6 --seconds 0.5  # in 15 minutes
pip install optuna                                        # for its row

Each set of scenes is explored with settings drawn at random. Then it is left out: the model is fitted to the runs on
all other sets and chooses settings for it without any simulation. Random search and TPE may simulate: they measure some
settings on the set itself and choose the fastest. All choices are measured again, in turns. "of best" is relative to
the fastest choice. A promise is the figure that the model states for a run on the set that was left out; it holds
if the measured figure is not lower. Bar: 0.9 of the promises hold. It exits with 1 where the bar is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from gym_batchnav.cli.tune import runs_of
from gym_batchnav.render.api import find_renderer
from gym_batchnav.system.progress import share_progress
from gym_batchnav.tuning.features import Run, Situation, SpeedSettings
from gym_batchnav.tuning.measure import Workload
from gym_batchnav.tuning.model import SpeedModel
from gym_batchnav.tuning.tune import NUM_ENVS, Limits, candidates, choose, explore

BAR = 0.9
SETS = {
    "apartments": "apartments",
    "small homes": "procedural:0-7?area=30&closed_doors=0&triangles=8000",
    "homes": "procedural:10-17",
    "plain homes": "procedural:20-23?area=60&triangles=5000",
    "large homes": "procedural:30-31?area=250",
}
RESOLUTIONS = ((32, 32), (64, 64), (128, 128))
SENSORS = ("depth",)
ROUNDS = 3
DECIDES = (64, 64)  # resolution of the choices, so that they can be compared


@dataclass(frozen=True)
class Found:
    """Settings that a method chose, and the seconds that it simulated for them."""

    settings: SpeedSettings
    seconds: float


def explore_all(
    work: dict[str, Workload], given: dict[str, Situation], allowed: dict[str, Limits], options: argparse.Namespace
) -> None:
    """Measure random settings on every set of scenes and append them to a log."""
    for number, (name, workload) in enumerate(work.items()):
        with share_progress(name) as show, options.runs.open("a") as log:
            for run in explore(workload, given[name], allowed[name], options.explore, options.seconds, number, show):
                print(json.dumps(run.line()), file=log, flush=True)


def limits(situation: Situation, max_envs: int, resolutions: tuple[tuple[int, int], ...] = RESOLUTIONS) -> Limits:
    """Return the limits of all methods."""
    renderer = find_renderer("auto").name
    num_envs = tuple(count for count in NUM_ENVS if count <= max_envs)
    return Limits(resolutions, (renderer,), int(situation.scenes.num_scenes), situation.machine.cores, num_envs)


def promises(runs: list[Run]) -> list[bool]:
    """Return whether the promise held, for every run, by models that never saw its set of scenes."""
    held = []
    for group in dict.fromkeys(run.situation.scenes for run in runs):
        model = SpeedModel([run for run in runs if run.situation.scenes != group])
        for run in runs:
            if run.situation.scenes == group:
                held.append(bool(model.speeds(run.situation, [run.settings]).promised[0] <= run.fps))
    return held


def by_random_search(
    workload: Workload, situation: Situation, allowed: Limits, trials: int, seconds: float, seed: int
) -> Found:
    """Measure random settings and return the fastest."""
    begun = time.perf_counter()
    runs = list(explore(workload, situation, allowed, trials, seconds, seed))
    best = max(runs, key=lambda run: run.fps)
    return Found(best.settings, time.perf_counter() - begun)


def by_tpe(workload: Workload, situation: Situation, allowed: Limits, trials: int, seconds: float, seed: int) -> Found:
    """Let Optuna's TPE propose settings, measure them, and return the fastest."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    settings = candidates(situation, allowed)
    names = ("num_envs", "resident_scenes", "threads")
    values = {name: sorted({getattr(one, name) for one in settings}) for name in names}
    fitting = {tuple(getattr(one, name) for name in names): one for one in settings}

    def objective(trial: optuna.Trial) -> float:
        chosen = fitting.get(tuple(trial.suggest_categorical(name, values[name]) for name in names))
        if chosen is None:
            raise optuna.TrialPruned
        trial.set_user_attr("settings", chosen)
        return workload.measure(chosen, seconds).fps

    begun = time.perf_counter()
    # By default the first ten trials are random, which may be all of them.
    sampler = optuna.samplers.TPESampler(n_startup_trials=max(trials // 3, 1), seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=trials)
    return Found(study.best_trial.user_attrs["settings"], time.perf_counter() - begun)


def main() -> None:
    """Explore, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="log of runs; created if missing")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--explore", type=int, default=24, help="settings to measure on every set first")
    parser.add_argument("--trials", type=int, default=10, help="settings that random search and TPE may measure")
    parser.add_argument("--max-envs", type=int, default=max(NUM_ENVS), help="largest number of agents")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement, after its warm-up")
    parser.add_argument("--json", action="store_true", help="print one line of JSON in place of the table")
    options = parser.parse_args()
    work = {name: Workload(SETS[name], SENSORS) for name in options.sets}
    given = {name: workload.situation() for name, workload in work.items()}
    if options.explore:
        explore_all(work, given, {name: limits(one, options.max_envs) for name, one in given.items()}, options)
    runs = runs_of(options.runs)
    held = promises(runs)
    figures: dict[str, object] = {"runs": len(runs), "promises_held": statistics.mean(held)}
    table = Table(title=f"{len(runs)} runs; {statistics.mean(held):.3f} of the promises hold (bar {BAR})")
    for column in ("scenes", "method", "agents", "resident", "threads", "frames/s", "of best", "simulated s"):
        table.add_column(column, justify="left" if column in ("scenes", "method") else "right")
    for number, (name, workload) in enumerate(work.items()):
        others = [run for run in runs if run.situation.scenes != given[name].scenes]
        begun = time.perf_counter()
        allowed = limits(given[name], options.max_envs, (DECIDES,))
        choice = choose(others, given[name], allowed, 1)[0]
        print(
            f"{name}: chosen in {time.perf_counter() - begun:.1f} s, promised {choice.promised:,.0f}", file=sys.stderr
        )
        found = {"tune": Found(choice.settings, 0.0)}
        search = (workload, given[name], allowed, options.trials, options.seconds, number)
        found["random search"] = by_random_search(*search)
        if find_spec("optuna") is not None:
            found["TPE"] = by_tpe(*search)
        measured: dict[str, list[float]] = {method: [] for method in found}
        for _ in range(ROUNDS):
            for method, one in found.items():
                measured[method].append(workload.measure(one.settings, options.seconds).fps)
        speed = {method: float(np.median(rates)) for method, rates in measured.items()}
        for method, one in found.items():
            settings = one.settings
            cells = [name, method, settings.num_envs, settings.resident_scenes, settings.threads]
            cells += [f"{speed[method]:,.0f}", f"{speed[method] / max(speed.values()):.2f}", f"{one.seconds:.0f}"]
            table.add_row(*map(str, cells))
            print(*cells, sep=", ", file=sys.stderr)
        figures[name] = {
            method: {"fps": speed[method], "seconds": one.seconds, "promised": choice.promised}
            for method, one in found.items()
        }
    if options.json:
        print(json.dumps(figures))
    else:
        Console(width=110).print(table)
    sys.exit(statistics.mean(held) < BAR)


if __name__ == "__main__":
    main()
