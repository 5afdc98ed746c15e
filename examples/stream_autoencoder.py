"""An autoencoder and a next-frame model, trained from the running simulation and, for comparison, from disk.

Both ways use the same network, the same number of simulated frames and of gradient steps, and each frame equally often.
From disk, the frames are simulated and saved first, then read again. The script prints the losses on held-out scenes,
the share of time for which the learner waited for data and the bytes on disk, and draws the curves.

pip install "gym-batchnav[train]"
python examples/stream_autoencoder.py --seeds 0 1 2 --out stream_autoencoder.png
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads of torch and the simulation share the processors

import numpy as np
import torch
from torch import nn

from gym_batchnav.evaluation.agents import RandomAgent, ShortestPathAgent
from gym_batchnav.stream.dataset import StreamDataset, tensors_of
from gym_batchnav.stream.stream import BatchStream, StreamSettings

TRAINING_SCENES = [f"apartment_{index}" for index in range(6)]
HELD_OUT_SCENES = ["apartment_6", "apartment_7"]
COLUMNS = ("action", "acted")  # of the stream, in addition to the images
NUM_ACTIONS = 4
EVALUATIONS = 12


class Wanderer(ShortestPathAgent):
    """Walks to its goals, and in one step of five acts at random, so that actions do not follow from the picture."""

    def __init__(self, seed=0):
        self._random = RandomAgent(seed)
        self._rng = np.random.default_rng(seed)

    def act(self, env, observation, begun):
        walks = self._rng.random(env.num_envs) > 0.2
        return np.where(walks, super().act(env, observation, begun), self._random.act(env, observation, begun))


class WorldModel(nn.Module):
    """Encodes a picture [B, C, 64, 64], and decodes it and the picture after an action."""

    def __init__(self, channels, features=64):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, 16, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 8 * 8, features),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(features, 32 * 8 * 8), nn.ReLU(), nn.Unflatten(1, (32, 8, 8)),
            nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(16, channels, 4, 2, 1),
        )  # fmt: skip
        self.act = nn.Sequential(nn.Linear(features + NUM_ACTIONS, 128), nn.ReLU(), nn.Linear(128, features))

    def forward(self, picture, action):
        code = self.encoder(picture)
        taken = nn.functional.one_hot(action, NUM_ACTIONS).float()
        return self.decoder(code), self.decoder(code + self.act(torch.cat([code, taken], 1)))


def losses(model, batch, sensor):
    """Return the mean squared errors of the first picture of each pair, and of the second where the action counted."""
    pictures = batch[sensor].float() / (255 if sensor == "rgb" else 1)
    now, then = pictures.permute(1, 0, 4, 2, 3)
    decoded, predicted = model(now, batch["action"][:, 0])
    errors = (predicted - then).square().mean((1, 2, 3))
    acted = batch["acted"][:, 0].float()
    return (decoded - now).square().mean(), (errors * acted).sum() / acted.sum().clamp(min=1)


def environment(options, scenes=TRAINING_SCENES):
    return {"num_envs": options.num_envs, "scenes": scenes, "sensors": (options.sensor,)}


def settings(options, seed, **given):
    common = {"sequence_length": 2, "batch_size": options.batch_size, "threads": 1, "deterministic": True}
    return StreamSettings(**{**common, "seed": seed, "capacity": options.capacity, **given})


def held_out(options):
    """Return minibatches of scenes that training does not use."""
    with BatchStream(environment(options, HELD_OUT_SCENES), settings(options, seed=999), Wanderer()) as stream:
        return [tensors_of(next(stream)) for _ in range(4)]


def learn(options, seed, batches, tests):
    """Train a new model; return its curve [EVALUATIONS + 1, 2] of held-out losses, and the seconds spent learning."""
    torch.manual_seed(seed)
    model = WorldModel(3 if options.sensor == "rgb" else 1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    batches = iter(batches)
    curve = []
    learning = waiting = 0.0
    for step in range(options.steps + 1):
        if step % (options.steps // EVALUATIONS) == 0:
            with torch.no_grad():
                found = torch.stack([torch.stack(losses(model, test, options.sensor)) for test in tests])
            curve.append(found.mean(0).numpy())
        clock = time.perf_counter()
        batch = next(batches)
        begun = time.perf_counter()
        optimizer.zero_grad()
        sum(losses(model, batch, options.sensor)).backward()
        optimizer.step()
        if step > 0:  # the first minibatch waits for the scenes
            waiting += begun - clock
            learning += time.perf_counter() - begun
    return np.array(curve), waiting / (waiting + learning), step / (waiting + learning)


def from_stream(options, seed, tests):
    """Train while the simulation runs. Nothing is written."""
    chosen = settings(options, seed, samples_per_frame=options.samples_per_frame)
    batches = iter(StreamDataset(environment(options), chosen, Wanderer(seed)))
    try:
        return (*learn(options, seed, batches, tests), 0)
    finally:
        batches.close()


def from_disk(options, seed, tests):
    """Save as many frames as the stream simulates, then train from the files."""
    num_samples = int(options.steps * options.batch_size / options.samples_per_frame)
    with tempfile.TemporaryDirectory() as folder:
        save(options, seed, Path(folder), num_samples)
        stored = sum(file.stat().st_size for file in Path(folder).iterdir())
        return (*learn(options, seed, read(options, seed, Path(folder)), tests), stored)


def save(options, seed, folder, num_samples):
    """Save samples of consecutive frames as one .npy file per column."""
    block = options.num_envs
    once = settings(options, seed, capacity=block, batch_size=block, min_samples=block)
    files = {}
    with BatchStream(environment(options), once, Wanderer(seed)) as stream:
        for first in range(0, num_samples, block):
            batch = next(stream)  # a memory of one block: every sample once
            for name in (options.sensor, *COLUMNS):
                values = batch[name][: num_samples - first]
                if name not in files:
                    shape = (num_samples, *values.shape[1:])
                    files[name] = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", values.dtype, shape)
                files[name][first : first + len(values)] = values
    for file in files.values():
        file.flush()


def read(options, seed, folder):
    """Yield random minibatches of the files without end."""
    rng = np.random.default_rng(seed)
    files = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in (options.sensor, *COLUMNS)}
    while True:
        rows = np.sort(rng.choice(len(files[options.sensor]), options.batch_size, replace=False))
        yield tensors_of({name: values[rows] for name, values in files.items()})


def draw(path, options, curves):
    """Draw the held-out losses over the gradient steps: the mean of all seeds, and their range."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.subplots(1, 2)
    steps = np.arange(EVALUATIONS + 1) * (options.steps // EVALUATIONS)
    for axis, part, title in zip(axes, range(2), ("autoencoder", "next frame, given the action"), strict=True):
        for (name, runs), color, style in zip(curves.items(), ("tab:blue", "tab:orange"), ("-", "--"), strict=True):
            values = np.array(runs)[:, :, part]
            axis.plot(steps, values.mean(0), style, color=color, label=f"from {name}")
            axis.fill_between(steps, values.min(0), values.max(0), color=color, alpha=0.2, linewidth=0)
        axis.set_yscale("log")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("gradient steps")
    axes[0].set_ylabel("held-out squared error")
    axes[0].legend()
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sensor", choices=("depth", "rgb"), default="depth")
    parser.add_argument("--steps", type=int, default=1200, help="gradient steps, a multiple of 12")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=64, help="pairs of frames")
    parser.add_argument("--capacity", type=int, default=4096, help="pairs in the memory of the stream")
    parser.add_argument("--samples-per-frame", type=float, default=4.0)
    parser.add_argument("--out", help="picture of the curves")
    options = parser.parse_args()
    if options.steps < 1 or options.steps % EVALUATIONS:
        parser.error(f"--steps {options.steps}: pass a multiple of {EVALUATIONS}")
    torch.set_num_threads(1)  # the other processor simulates
    tests = held_out(options)
    ways = {"stream": from_stream, "disk": from_disk}
    curves = {name: [] for name in ways}
    for seed in options.seeds:
        for name, way in ways.items():
            curve, wait, speed, stored = way(options, seed, tests)
            curves[name].append(curve)
            print(
                f"seed {seed} from {name:<6}  autoencoder {curve[-1][0]:.5f}  next frame {curve[-1][1]:.5f}  "
                f"waited {wait:.1%}  {speed:.1f} steps/s  {stored / 2**20:.0f} MiB on disk",
                flush=True,
            )
    for part, what in enumerate(("autoencoder", "next frame")):
        ends = {name: np.array([curve[-1][part] for curve in runs]) for name, runs in curves.items()}
        means = ", ".join(f"{name} {values.mean():.5f} ({np.ptp(values):.5f} wide)" for name, values in ends.items())
        print(f"{what}: {means}")
    if options.out:
        draw(options.out, options, curves)


if __name__ == "__main__":
    main()
