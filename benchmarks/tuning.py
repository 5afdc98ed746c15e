"""`gym-batchnav tune` compared with the defaults, random search and Optuna's TPE: frames/s of the choice, and its cost.

python benchmarks/tuning.py --runs runs.jsonl             # explore, then compare; about two hours on two cores
python benchmarks/tuning.py --runs runs.jsonl --explore 0 # compare only, with the runs of before
python benchmarks/tuning.py --runs runs.jsonl --max-envs 1024 --explore 14 --trials 6 --seconds 0.5  # in 30 minutes
pip install optuna                                        # for its row

There are five sets of scenes and two settings of the machine: one thread, with scene files of at most 10,000 triangles,
and two threads with all triangles. Each of the ten is explored with N, K and threads drawn at random. Then its set of
scenes is left out: the model is fitted to the runs on all other sets and chooses settings without any simulation.
Defaults are those of a batch without keywords. Random search and TPE may simulate: they measure some settings on the
set itself and choose the fastest. All choices are measured again, in turns. "of defaults" is the median over the turns
relative to the defaults; where no method is more than 3% faster, the table says so. A promise is the figure that the
model states for a run on the set that was left out; it holds if the measured figure is not lower. Bar: 0.9 of the
promises hold. It exits with 1 where the bar is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from gym_batchnav.render.api import find_renderer
from gym_batchnav.tuning import (
    NUM_ENVS,
    Run,
    Situation,
    SpeedModel,
    SpeedSettings,
    Workload,
    candidates,
    choose,
    defaults,
    read_runs,
)

BAR = 0.9
GAIN = 1.03  # over the defaults, from which on settings are called faster
SETS = {
    "apartments": "apartments",
    "small homes": "procedural:0-7?area=30&closed_doors=0&triangles=8000",
    "homes": "procedural:10-17",
    "plain homes": "procedural:20-23?area=60&triangles=5000",
    "large homes": "procedural:30-31?area=250",
}
MACHINES = {"1 thread": (1, 10_000), "2 threads": (2, None)}  # threads, max_triangles
ROUNDS = 3


@dataclass(frozen=True)
class Case:
    """A set of scenes on a machine, and what may be chosen there."""

    name: str
    work: Workload
    situation: Situation
    settings: list[SpeedSettings]

    def measured(self, count: int, seconds: float, seed: int) -> list[Run]:
        """Measure settings drawn at random."""
        order = np.random.default_rng(seed).permutation(len(self.settings))[:count].tolist()
        return [self.work.measure(self.situation, self.settings[row], seconds) for row in order]


def cases(sets: list[str], max_envs: int) -> list[Case]:
    """Return all sets of scenes on all machines."""
    renderer = find_renderer("auto")
    counts = tuple(count for count in NUM_ENVS if count <= max_envs)
    found = []
    for machine, (threads, max_triangles) in MACHINES.items():
        for name in sets:
            work = Workload(SETS[name], max_triangles=max_triangles)
            given = work.situation(renderer.on_gpu, threads)
            found.append(Case(f"{name}, {machine}", work, given, candidates(given, renderer.name, num_envs=counts)))
    return found


def set_of(situation: Situation) -> tuple[float, float]:
    """Return what tells sets of scenes apart, with however many triangles they are drawn."""
    return situation.scenes[0], round(situation.scenes[3], 1)


def promises(runs: list[Run]) -> list[bool]:
    """Return whether the promise held, for every run, by models that never saw its set of scenes."""
    held = []
    for group in dict.fromkeys(set_of(run.situation) for run in runs):
        model = SpeedModel([run for run in runs if set_of(run.situation) != group])
        for run in runs:
            if set_of(run.situation) == group:
                held.append(bool(model.speeds(run.situation, [run.settings])[1][0] <= run.fps))
    return held


def by_tpe(case: Case, trials: int, seconds: float, seed: int) -> SpeedSettings:
    """Let Optuna's TPE propose settings, measure them, and return the fastest."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names = ("num_envs", "resident_scenes", "threads")
    values = {name: sorted({getattr(one, name) for one in case.settings}) for name in names}
    fitting = {tuple(getattr(one, name) for name in names): one for one in case.settings}

    def objective(trial: optuna.Trial) -> float:
        chosen = fitting.get(tuple(trial.suggest_categorical(name, values[name]) for name in names))
        if chosen is None:
            raise optuna.TrialPruned
        trial.set_user_attr("settings", chosen)
        return case.work.measure(case.situation, chosen, seconds).fps

    # By default the first ten trials are random, which may be all of them.
    sampler = optuna.samplers.TPESampler(n_startup_trials=max(trials // 3, 1), seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=trials)
    return study.best_trial.user_attrs["settings"]


def compare(case: Case, runs: list[Run], options: argparse.Namespace, seed: int) -> dict[str, dict[str, object]]:
    """Return settings, frames/s, speed relative to the defaults and seconds of search, by method."""
    others = [run for run in runs if set_of(run.situation) != set_of(case.situation)]

    def by_random_search() -> SpeedSettings:
        return max(case.measured(options.trials, options.seconds, seed), key=lambda run: run.fps).settings

    methods = {
        "defaults": lambda: defaults(case.situation, case.settings[0].renderer),
        "tune": lambda: choose(others, case.situation, case.settings, 1)[0].settings,
        "random search": by_random_search,
    }
    if find_spec("optuna") is not None:
        methods["TPE"] = lambda: by_tpe(case, options.trials, options.seconds, seed)
    found: dict[str, dict[str, object]] = {}
    for method, search in methods.items():
        begun = time.perf_counter()
        found[method] = {"settings": search(), "seconds": time.perf_counter() - begun}
    rates: dict[str, list[float]] = {method: [] for method in found}
    for _ in range(ROUNDS):
        for method, one in found.items():
            rates[method].append(case.work.measure(case.situation, one["settings"], options.seconds).fps)
    for method, one in found.items():
        ratios = [rate / usual for rate, usual in zip(rates[method], rates["defaults"], strict=True)]
        one |= {"fps": statistics.median(rates[method]), "of_defaults": statistics.median(ratios)}
    return found


def main() -> None:
    """Explore, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="log of runs; created if missing")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--explore", type=int, default=24, help="settings to measure in every case first")
    parser.add_argument("--trials", type=int, default=10, help="settings that random search and TPE may measure")
    parser.add_argument("--max-envs", type=int, default=max(NUM_ENVS), help="largest number of agents")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement, after its warm-up")
    parser.add_argument("--json", action="store_true", help="print one line of JSON in place of the table")
    options = parser.parse_args()
    every = cases(options.sets, options.max_envs)
    with options.runs.open("a") as log:
        for number, case in enumerate(every):
            for run in case.measured(options.explore, options.seconds, number):
                print(json.dumps(asdict(run)), file=log, flush=True)
    runs = read_runs(options.runs)
    share = statistics.mean(promises(runs))
    figures: dict[str, object] = {"runs": len(runs), "promises_held": share}
    table = Table(title=f"{len(runs)} runs; {share:.3f} of the promises hold (bar {BAR})")
    for column in ("case", "method", "agents", "resident", "threads", "frames/s", "of defaults", "search, s"):
        table.add_column(column, justify="left" if column in ("case", "method") else "right")
    for number, case in enumerate(every):
        found = compare(case, runs, options, number)
        gains = [one["of_defaults"] > GAIN for one in found.values()]
        name = case.name if any(gains) else f"{case.name} (no gain over 3%)"
        for method, one in found.items():
            chosen = one["settings"]
            cells = [name, method, chosen.num_envs, chosen.resident_scenes, chosen.threads, f"{one['fps']:,.0f}"]
            table.add_row(*map(str, cells), f"{one['of_defaults']:.2f}", f"{one['seconds']:.0f}")
        figures[case.name] = {method: {**one, "settings": asdict(one["settings"])} for method, one in found.items()}
    if options.json:
        print(json.dumps(figures))
    else:
        Console(width=130).print(table)
    sys.exit(share < BAR)


if __name__ == "__main__":
    main()
