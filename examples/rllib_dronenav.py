"""SAC with prioritised replay and several env runners of RLlib, on DroneNav: python examples/rllib_dronenav.py --help.

As in Ape-X (Horgan et al. 2018), many actors fill a replay buffer from which one learner takes what it can learn most
from. Each env runner is a process with a batch of drones in its own homes, on one machine or on the nodes of a cluster.
"""

from ray.rllib.algorithms.sac import SACConfig
from ray.tune import register_env
from rllib_run import HOMES, connect, make_parser, train

from gym_batchnav.adapters.rllib import log_measures, make_batch
from gym_batchnav.flight.episodes import FlightEpisodes
from gym_batchnav.flight.task import DroneNav


def make_config(options):
    """Return RLlib's SAC on batches of gym_batchnav, one per env runner."""
    register_env("batchnav", make_batch)
    flights = FlightEpisodes(max_distance=options.max_distance, straight_ratio=1.0)
    return (
        SACConfig()
        .environment(
            "batchnav",
            env_config={
                "id": "BatchNav/DroneNavScan-v0", "scenes": options.scenes, "max_episode_steps": options.episode_steps,
                "sensors": ("depth",) if options.depth else (), "task": DroneNav(sampler=flights),
            },
        )
        .env_runners(
            num_env_runners=options.env_runners,
            num_envs_per_env_runner=options.num_envs,
            gym_env_vectorize_mode="vector_entry_point",
            rollout_fragment_length=options.rollout,
        )
        .learners(num_learners=0)  # learn in this process
        .rl_module(model_config={"fcnet_hiddens": [128, 128], "head_fcnet_hiddens": []})
        .training(
            actor_lr=options.learning_rate,
            critic_lr=options.learning_rate,
            alpha_lr=options.learning_rate,
            initial_alpha=0.1,
            tau=0.01,
            gamma=0.95,
            n_step=3,
            train_batch_size_per_learner=options.batch,
            training_intensity=options.intensity,
            num_steps_sampled_before_learning_starts=options.warm_up,
            replay_buffer_config={
                "type": "PrioritizedEpisodeReplayBuffer", "capacity": options.capacity, "alpha": 0.6, "beta": 0.4,
            },
        )
        .reporting(min_sample_timesteps_per_iteration=options.report, min_time_s_per_iteration=0)
        .callbacks(on_episode_end=log_measures)
        .debugging(seed=options.seed)
    )  # fmt: skip


def add_options(parser):
    """Add the options of SAC and of the flights to a parser."""
    parser.add_argument("--max-distance", type=float, default=4.0, help="longest shortest path to a goal, metres")
    parser.add_argument("--depth", action="store_true", help="also see depths all around, for longer flights")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of the actor, the critics and the entropy")
    parser.add_argument("--batch", type=int, default=256, help="steps in an update")
    parser.add_argument("--intensity", type=float, default=16.0, help="steps learned from per step sampled")
    parser.add_argument("--capacity", type=int, default=300_000, help="steps in the replay buffer")
    parser.add_argument("--warm-up", type=int, default=2_000, help="steps sampled before learning starts")
    parser.add_argument("--report", type=int, default=1_000, help="steps between two lines of statistics")


def main():
    """Train, print RLlib's statistics, and save a checkpoint."""
    parser = make_parser(
        __doc__, scenes=HOMES.format("0-3"), env_runners=2, num_envs=16, rollout=4, frames=100_000, episode_steps=60,
        out="runs/rllib_dronenav",
    )  # fmt: skip
    add_options(parser)
    options = parser.parse_args()
    connect(options)
    train(make_config(options), options)


if __name__ == "__main__":
    main()
