"""Population-based training of Tag's players with PPO on Ray Tune: python examples/tag_population.py --help.

Every member of the population has one policy, which runs and chases, and learns by playing against itself. From time to
time the worst members take over the weights and the settings of the best ones, and change the settings at random
(Jaderberg et al. 2017). The score is the share of games in which a member catches a runner that moves at random, or
escapes a chaser that walks straight at it. At the end all members, these two players and a new policy are rated.

pip install "gym-batchnav[rllib,train]"
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import ray
import torch
from gymnasium.spaces import Box
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining

from gym_batchnav.env.ids import make_batch
from gym_batchnav.evaluation.agents import as_agent
from gym_batchnav.task.meeting import Players, Tag
from gym_batchnav.train import checkpoint
from gym_batchnav.train.policy import make_policy
from gym_batchnav.train.policy_agent import PolicyAgent
from gym_batchnav.train.ppo import PPO, PPOConfig
from gym_batchnav.worlds.selfplay import ratings

HOMES = "procedural:0-3?area=28&closed_doors=0&triangles=8000"
SETTINGS = {
    "learning_rate": tune.loguniform(5e-4, 1e-2),
    "entropy_weight": tune.loguniform(1e-3, 5e-2),
    "horizon": tune.loguniform(5, 50),  # steps; 1 / (1 - gamma)
}
FILE = "player.pt"


class Opponent(Players):
    """The other player and the own role [4] float32: metres ahead and to the right, team, and 1 for the runner."""

    name = "opponent"
    space = Box(-np.inf, np.inf, (4,), np.float32)

    def observe(self, state):
        """Return the readings [N, 4]."""
        other = Players.observe(self, state)[:, 0]
        runs = np.arange(len(other)) % 2 == 0
        return np.column_stack([other, runs]).astype(np.float32)


@dataclass(frozen=True)
class Game(Tag):
    """Tag of one runner and one chaser."""

    sensors = (Opponent(),)


def make_worlds(num_worlds, config, autoreset_mode="same_step"):
    """Make a batch of worlds whose players do not see the walls."""
    return make_batch(
        "Tag",
        2 * num_worlds, task=Game(), scenes=config["scenes"], sensors=(), episodes=200,
        autoreset_mode=autoreset_mode, max_episode_steps=config["episode_steps"],
    )  # fmt: skip


def pursuer(observation):
    """Walk straight at the other player."""
    ahead, right = observation["opponent"][:, :2].T
    angle = np.arctan2(right, ahead)
    return np.where(np.abs(angle) < 0.2, 1, np.where(angle > 0, 3, 2))


def random_player(seed):
    """Return a player that acts at random."""
    rng = np.random.default_rng(seed)
    return lambda observation: rng.integers(1, 4, len(observation["opponent"]))


def catches(envs, chaser, runner, seed):
    """Return the share of the worlds in which a chaser catches a runner."""
    players = [as_agent(runner), as_agent(chaser)]
    observation, info = envs.reset(seed=seed)
    for player in players:
        player.reset(envs)
    begun = np.ones(envs.num_envs, bool)
    done = np.zeros(envs.num_envs, bool)
    caught = np.zeros(envs.num_envs, bool)
    while not done.all():
        actions = [player.act(envs, observation, begun) for player in players]
        with envs.paused(done):
            observation, _, terminated, truncated, info = envs.step(
                np.where(np.arange(envs.num_envs) % 2 == 0, *actions)
            )
        begun[:] = False
        caught |= info["caught"] & ~done
        done |= terminated | truncated
    return float(caught[1::2].mean())


class Member(tune.Trainable):
    """A member of the population: a policy, PPO, and the worlds in which it trains and plays for its score."""

    def setup(self, config):
        """Make the worlds and a new policy."""
        torch.set_num_threads(1)
        torch.manual_seed(config["seed"])
        self.worlds = make_worlds(config["num_worlds"], config)
        self.arena = make_worlds(config["matches"], config, "disabled")
        self.policy = make_policy("blind", self.worlds.single_observation_space)
        self.reset_config(config)

    def reset_config(self, new_config):
        """Train on with other settings; Tune then loads a checkpoint."""
        self.config = new_config
        settings = PPOConfig(
            num_minibatches=4, num_epochs=4, normalize_advantages=True, optimizer="adamw", scale_learning_rate=False,
            learning_rate=new_config["learning_rate"], entropy_weight=new_config["entropy_weight"],
            gamma=1 - 1 / new_config["horizon"],
        )  # fmt: skip
        self.ppo = PPO(self.worlds, self.policy, settings, seed=new_config["seed"])
        return True

    def step(self):
        """Train for a while, then play for the score."""
        for _ in range(self.config["rollouts"]):
            self.ppo.iterate(progress=0.01)  # where the rate is highest: the population changes it instead
        agent = PolicyAgent(self.policy, sample_seed=0)
        won = catches(self.arena, agent, random_player(0), self.config["seed"])
        escaped = 1 - catches(self.arena, pursuer, agent, self.config["seed"])
        return {"score": (won + escaped) / 2, "caught": won, "escaped": escaped, "frames": self.ppo.frames}

    def save_checkpoint(self, checkpoint_dir):
        """Write everything that training goes on from."""
        checkpoint.save(Path(checkpoint_dir) / FILE, self.ppo.get_state(), {})

    def load_checkpoint(self, checkpoint_dir):
        """Go on from a member's checkpoint, or from that of another one."""
        state, _ = checkpoint.load(Path(checkpoint_dir) / FILE)
        self.ppo.set_state(state)

    def cleanup(self):
        """Close the worlds."""
        self.worlds.close()
        self.arena.close()


def evolve(options):
    """Train the population; return Tune's results, one for each member."""
    fixed = {name: getattr(options, name) for name in (
        "scenes", "num_worlds", "matches", "episode_steps", "rollouts", "seed",
    )}  # fmt: skip
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=options.interval, hyperparam_mutations=SETTINGS,
    )  # fmt: skip
    tuner = tune.Tuner(
        Member,
        param_space={**fixed, **SETTINGS},
        tune_config=tune.TuneConfig(
            metric="score", mode="max", scheduler=scheduler, num_samples=options.members, reuse_actors=True
        ),
        run_config=tune.RunConfig(
            name="tag_population", storage_path=str(options.out.resolve()), stop={"training_iteration": options.steps},
            checkpoint_config=tune.CheckpointConfig(num_to_keep=2, checkpoint_at_end=True), verbose=0,
        ),
    )  # fmt: skip
    return tuner.fit()


def meet(results, options):
    """Let the members, a new policy and the players of the score meet; return their names and ratings."""
    arena = make_worlds(options.matches, {**vars(options), "scenes": options.held_out}, "disabled")
    players = {"random": random_player(options.seed), "pursuer": pursuer}
    torch.manual_seed(options.seed)
    space = arena.single_observation_space
    players["untrained"] = PolicyAgent(make_policy("blind", space), sample_seed=0)
    for number, result in enumerate(results):
        policy = make_policy("blind", space)
        state, _ = checkpoint.load(Path(result.checkpoint.path) / FILE)
        policy.load_state_dict(state["policy"])
        players[f"member {number}"] = PolicyAgent(policy, sample_seed=0)
    wins = np.zeros((len(players), len(players)))
    for i, chaser in enumerate(players.values()):
        for j, runner in enumerate(players.values()):
            if i != j:
                won = options.matches * catches(arena, chaser, runner, options.seed + 1000)
                wins[i, j] += won
                wins[j, i] += options.matches - won
    arena.close()
    return list(players), ratings(wins)


def main():
    """Train the population, print what became of its members, and write population.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=4, help="size of the population")
    parser.add_argument("--cpus", type=int, default=2, help="members that train at the same time")
    parser.add_argument("--steps", type=int, default=12, help="times that each member trains and plays for its score")
    parser.add_argument("--rollouts", type=int, default=10, help="of 32 steps, in each of these")
    parser.add_argument("--interval", type=int, default=2, help="steps between two comparisons of a member")
    parser.add_argument("--num-worlds", type=int, default=32, help="worlds in which each member trains")
    parser.add_argument("--matches", type=int, default=64, help="games in each role for a score")
    parser.add_argument("--episode-steps", type=int, default=150)
    parser.add_argument("--scenes", default=HOMES, help="training scenes; also a file or folder")
    parser.add_argument("--held-out", default=HOMES.replace("0-3", "100-103"), help="scenes of the last games")
    parser.add_argument("--out", type=Path, default=Path("runs/tag_population"), help="folder for checkpoints")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    ray.init("local", num_cpus=options.cpus, include_dashboard=False, logging_level="error")
    results = evolve(options)
    figures = {"members": []}
    for number, result in enumerate(results):
        course = result.metrics_dataframe
        settings = {name: result.config[name] for name in SETTINGS}
        scores = course["score"].round(3).tolist()
        figures["members"].append({"scores": scores, "frames": int(course["frames"].iloc[-1]), **settings})
        last = ", ".join(f"{name} {value:.4g}" for name, value in settings.items())
        print(f"member {number}: score {scores[0]:.2f} at first, {scores[-1]:.2f} at last; {last}")
    ray.shutdown()
    names, rated = meet(results, options)
    for name, rating in sorted(zip(names, rated, strict=True), key=lambda pair: -pair[1]):
        print(f"{name}: rating {rating:+.0f}")
    figures["ratings"] = dict(zip(names, rated.tolist(), strict=True))
    (options.out / "population.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
