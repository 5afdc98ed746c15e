"""PPO in one file, after CleanRL, on a batch of environments: python examples/cleanrl_ppo.py --help.

The main differences from CleanRL's ppo.py: hundreds of environments step in one call, truncated episodes are
bootstrapped from their true last observation (autoreset mode SAME_STEP), and success and SPL are logged.

pip install "gym-batchnav[train]"
"""

import argparse
import csv
import time
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical
from torch.utils.tensorboard import SummaryWriter

import gym_batchnav  # noqa: F401 - registers the environments

COLUMNS = ("step", "return", "length", "timed_out", "success", "spl")


def parse_args(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--env-id", default="BatchNav/PointNavScan-v0", help="an id with observations of one row of numbers")
    add("--scenes", default="apartments", help="training scenes, such as procedural:0-99 or my_house.glb")
    add("--total-timesteps", type=int, default=4_000_000, help="environment steps, summed over environments")
    add("--num-envs", type=int, default=256, help="environments in the batch")
    add("--num-steps", type=int, default=32, help="steps of each environment between two updates")
    add("--max-episode-steps", type=int, default=500, help="number of actions after which an episode is truncated")
    add("--learning-rate", type=float, default=1e-3, help="initial learning rate; it falls to zero")
    add("--gamma", type=float, default=0.99, help="discount of rewards")
    add("--gae-lambda", type=float, default=0.95, help="lambda of generalized advantage estimation")
    add("--num-minibatches", type=int, default=8, help="mini-batches per epoch")
    add("--update-epochs", type=int, default=4, help="epochs per update")
    add("--clip-coef", type=float, default=0.2, help="PPO's clipping of the policy's ratio")
    add("--ent-coef", type=float, default=0.01, help="weight of the entropy bonus")
    add("--vf-coef", type=float, default=0.5, help="weight of the value loss")
    add("--max-grad-norm", type=float, default=0.5, help="maximum norm of gradients")
    add("--seed", type=int, default=1, help="seed of the environments and of torch")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="device of the networks")
    add("--out", type=Path, default=Path("runs"), help="folder for the runs")
    return parser.parse_args(argv)


def layer(inputs, outputs, std=2**0.5):
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, std)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    def __init__(self, num_inputs, num_actions, width=128):
        super().__init__()
        hidden = [layer(num_inputs, width), nn.Tanh(), layer(width, width), nn.Tanh()]
        self.actor = nn.Sequential(*hidden, layer(width, num_actions, 0.01))
        hidden = [layer(num_inputs, width), nn.Tanh(), layer(width, width), nn.Tanh()]
        self.critic = nn.Sequential(*hidden, layer(width, 1, 1.0))

    def value(self, obs):
        return self.critic(obs).squeeze(-1)

    def policy(self, obs):
        return Categorical(logits=self.actor(obs), validate_args=False)


def main(argv=None):
    args = parse_args(argv)
    folder = args.out / f"{args.env_id.split('/')[-1]}__cleanrl_ppo__{args.seed}__{int(time.time())}"
    writer = SummaryWriter(str(folder))
    writer.add_text("hyperparameters", "\n".join(f"    {name} = {value}" for name, value in vars(args).items()))
    episode_file = (folder / "episodes.csv").open("w", newline="")
    episodes = csv.writer(episode_file)
    episodes.writerow(COLUMNS)
    torch.manual_seed(args.seed)
    device = torch.device(args.device)

    # Environments: rewards and flags are arrays [N]; with SAME_STEP an episode ends and the next begins in one step.
    envs = gymnasium.make_vec(
        args.env_id, num_envs=args.num_envs, scenes=args.scenes, max_episode_steps=args.max_episode_steps,
        autoreset_mode="same_step",
    )  # fmt: skip
    if len(envs.single_observation_space.shape or ()) != 1:
        raise SystemExit(f"{args.env_id} has no observations of one row of numbers: choose BatchNav/PointNavScan-v0")
    (num_inputs,) = envs.single_observation_space.shape
    shape = (args.num_steps, args.num_envs)
    agent = Agent(num_inputs, envs.single_action_space.n).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    obs = torch.zeros((*shape, num_inputs), device=device)
    actions = torch.zeros(shape, dtype=torch.long, device=device)
    logprobs, rewards, dones, values = torch.zeros((4, *shape), device=device)

    batch_size = args.num_steps * args.num_envs
    num_updates = max(1, args.total_timesteps // batch_size)
    returned = np.zeros(args.num_envs)
    length = np.zeros(args.num_envs, int)
    next_obs = torch.as_tensor(envs.reset(seed=args.seed)[0], device=device)
    start = time.time()
    step_count = 0
    for update in range(num_updates):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - update / num_updates)

        # Collect
        finished = []
        for step in range(args.num_steps):
            obs[step] = next_obs
            with torch.no_grad():
                policy = agent.policy(next_obs)
                actions[step] = policy.sample()
                logprobs[step], values[step] = policy.log_prob(actions[step]), agent.value(next_obs)
            new_obs, reward, terminated, truncated, info = envs.step(actions[step].cpu().numpy())
            ended = terminated | truncated
            rewards[step], dones[step] = torch.as_tensor(reward), torch.as_tensor(ended)
            next_obs = torch.as_tensor(new_obs, device=device)
            step_count += args.num_envs
            returned += reward
            length += 1
            if truncated.any():  # a time-out is not a terminal state: bootstrap from the value of the last observation
                last_obs = torch.as_tensor(info["final_obs"][truncated], device=device)
                with torch.no_grad():
                    rewards[step, torch.as_tensor(truncated)] += args.gamma * agent.value(last_obs)
            if ended.any():
                final = info["final_info"]
                columns = (returned, length, truncated.astype(int), final["success"].astype(int), final["spl"])
                finished += zip(np.full(ended.sum(), step_count), *(column[ended] for column in columns), strict=True)
                returned[ended] = 0
                length[ended] = 0

        # Generalized advantage estimation
        with torch.no_grad():
            advantages = torch.zeros(shape, device=device)
            advantage = 0
            next_value = agent.value(next_obs)
            for step in reversed(range(args.num_steps)):
                nonterminal = 1 - dones[step]
                delta = rewards[step] + args.gamma * next_value * nonterminal - values[step]
                advantages[step] = advantage = delta + args.gamma * args.gae_lambda * nonterminal * advantage
                next_value = values[step]

        # Learn
        flat_obs = obs.flatten(0, 1)
        flat_actions = actions.flatten()
        flat_logprobs = logprobs.flatten()
        flat_advantages = advantages.flatten()
        flat_returns = (advantages + values).flatten()
        for _ in range(args.update_epochs):
            for rows in torch.randperm(batch_size, device=device).chunk(args.num_minibatches):
                policy = agent.policy(flat_obs[rows])
                log_ratio = policy.log_prob(flat_actions[rows]) - flat_logprobs[rows]
                gain = flat_advantages[rows]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                clipped = log_ratio.exp().clamp(1 - args.clip_coef, 1 + args.clip_coef)
                policy_loss = -torch.min(gain * log_ratio.exp(), gain * clipped).mean()
                value_loss = 0.5 * (agent.value(flat_obs[rows]) - flat_returns[rows]).square().mean()
                entropy = policy.entropy().mean()
                optimizer.zero_grad()
                (policy_loss + args.vf_coef * value_loss - args.ent_coef * entropy).backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()

        # Report
        episodes.writerows(finished)
        losses = {"policy": policy_loss, "value": value_loss, "entropy": entropy}
        scalars = {f"losses/{name}": loss.item() for name, loss in losses.items()}
        scalars["charts/SPS"] = fps = step_count / (time.time() - start)
        if finished:
            for name, column in zip(COLUMNS[1:], np.array(finished, float).T[1:], strict=True):
                scalars[f"episodes/{name}"] = column.mean()
        for name, value in scalars.items():
            writer.add_scalar(name, value, step_count)
        if finished and (update % 20 == 19 or update == num_updates - 1):
            means = ", ".join(f"{name} {scalars[f'episodes/{name}']:.2f}" for name in COLUMNS[1:])
            print(f"step {step_count:,}: {means} ({len(finished)} episodes), {fps:,.0f} steps/s", flush=True)

    torch.save(agent.state_dict(), folder / "agent.pt")
    envs.close()
    writer.close()
    episode_file.close()
    print(f"{folder}: episodes.csv, agent.pt; curves: tensorboard --logdir {args.out}")
    return folder


if __name__ == "__main__":
    main()
