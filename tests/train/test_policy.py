"""The policies: sizes, memory, and one interface for steps and sequences."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.nn import functional as F  # noqa: E402

from gym_batchnav.task.sensors import WalkScan  # noqa: E402
from gym_batchnav.train.encoder import GOAL_PICTURES  # noqa: E402
from gym_batchnav.train.policy import GOAL, PREVIOUS_ACTION, make_policy  # noqa: E402

STEPS = 7
ENVS = 5
SIDE = 16
NUM_RANGES = 12
REACH = 4.0


def space(*sensors, side=SIDE, farthest=1.0):
    pictures = {
        "depth": Box(0, farthest, (side, side, 1), np.float32),
        "rgb": Box(0, 255, (side, side, 3), np.uint8),
        "semantic": Box(0, 9, (side, side, 1), np.int32),
    }
    scan = {"walk_scan": WalkScan(NUM_RANGES, REACH).space} if "walk_scan" in sensors else {}
    shown = {name: pictures[name] for name in sensors if name in pictures}
    return Dict({**shown, **scan, GOAL: Box(-9, 9, (2,), np.float32)})


def observations(side=SIDE, steps=STEPS, envs=ENVS, seed=0):
    """Return random observations [T, N, ...] of every sensor."""
    generator = torch.Generator().manual_seed(seed)
    shape = (steps, envs, side, side)
    return {
        "depth": torch.rand(*shape, 1, generator=generator),
        "rgb": torch.randint(0, 256, (*shape, 3), generator=generator, dtype=torch.uint8),
        "walk_scan": REACH * torch.rand(steps, envs, NUM_RANGES, generator=generator),
        GOAL: torch.randn(steps, envs, 2, generator=generator),
        PREVIOUS_ACTION: torch.randint(0, 4, (steps, envs), generator=generator),
    }


@pytest.mark.parametrize(("sensor", "side", "count"), [("depth", 64, 10_988_085), ("rgb", 128, 10_094_965)])
def test_the_papers_policy_has_the_papers_size_and_a_small_critic(sensor, side, count):
    policy = make_policy("paper", space(sensor, side=side))
    assert sum(parameter.numel() for parameter in policy.parameters()) == count
    assert policy.critic.weight.norm().item() == pytest.approx(0.1)


@pytest.mark.parametrize("kind", ["paper", "small", "scan"])
def test_a_sequence_is_the_same_as_its_steps(kind):
    """Memory is reset wherever an episode begins, at the start of a sequence and within it."""
    torch.manual_seed(0)
    policy = make_policy(kind, space("depth", "rgb", "walk_scan"))
    torch.nn.init.normal_(policy.actor.weight)
    observation = observations()
    begun = torch.rand(STEPS, ENVS, generator=torch.Generator().manual_seed(1)) < 0.3
    state = torch.randn_like(policy.initial_state(ENVS))
    with torch.no_grad():
        logits, values, last = policy(observation, state, begun)
        assert logits.shape == (STEPS, ENVS, 4) and values.shape == (STEPS, ENVS)
        for step in range(STEPS):
            now = {name: value[step] for name, value in observation.items()}
            step_logits, step_values, state = policy(now, state, begun[step])
            torch.testing.assert_close(step_logits, logits[step], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(step_values, values[step], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state, last, rtol=1e-4, atol=1e-5)


def with_goal_picture(name, seen="rgb", size=(SIDE, SIDE)):
    return Dict({**space(seen).spaces, name: Box(0, 255, (*size, 3), np.uint8)})


@pytest.mark.parametrize(
    ("kind", "name", "seen"),
    [("small", GOAL_PICTURES[0], "rgb"), ("small", GOAL_PICTURES[-1], "depth"), ("blind", GOAL_PICTURES[0], "rgb")],
)
def test_goal_pictures_count_unless_a_policy_is_blind(kind, name, seen):
    policy = make_policy(kind, with_goal_picture(name, seen))
    torch.nn.init.normal_(policy.actor.weight)
    observation = {**observations(), name: observations(seed=3)["rgb"]}
    begun = torch.zeros(STEPS, ENVS, dtype=torch.bool)
    changed = {**observation, name: observation[name].flip(1)}
    with torch.no_grad():
        logits, *_ = policy(observation, policy.initial_state(ENVS), begun)
        other, *_ = policy(changed, policy.initial_state(ENVS), begun)
    torch.testing.assert_close(logits[0, 2], other[0, 2])  # its picture is the same
    if kind == "blind":
        assert policy.task_sensors == (GOAL,) and torch.equal(logits, other)
    else:
        assert policy.task_sensors == (GOAL, name)
        assert (logits - other)[:, [0, 1, 3, 4]].abs().amax((0, 2)).min() > 1e-4


@pytest.mark.parametrize("size", [(SIDE, 12), (12, SIDE)])
def test_goal_pictures_have_the_size_of_the_agents_images(size):
    with pytest.raises(ValueError, match=r"'imagegoal' of shape.*16x16 pixels.*camera.*ImageNav\(camera=camera\)"):
        make_policy("small", with_goal_picture("imagegoal", size=size))


def test_ranges_are_embedded_by_their_logarithms():
    torch.manual_seed(0)
    policy = make_policy("scan", space("walk_scan"))
    (embed,) = policy.vector_embeddings
    scaled = 2 * np.log1p(np.array([0.0, 0.25, REACH]) / 0.1) / np.log1p(REACH / 0.1) - 1
    ranges = np.resize([0.0, 0.25, REACH], NUM_RANGES)
    first, _, second = embed.layers
    hidden = first(torch.as_tensor(np.resize(scaled, NUM_RANGES), dtype=torch.float32)).relu()
    torch.testing.assert_close(embed(torch.as_tensor(ranges, dtype=torch.float32)), second(hidden))
    assert torch.isfinite(embed(torch.full((NUM_RANGES,), -1.0))).all()


def test_impossible_policies_are_refused():
    with pytest.raises(ValueError, match="choose one of 'paper', 'narrow', 'compact', 'small'"):
        make_policy("resnet", space("depth"))
    with pytest.raises(ValueError, match="needs images"):
        make_policy("small", space("semantic"))
    with pytest.raises(ValueError, match=r"needs a range finder.*WalkScan"):
        make_policy("scan", space("depth"))
    with pytest.raises(ValueError, match=r"'wind' for a range finder.*negative"):
        make_policy("scan", Dict({**space("walk_scan"), "wind": Box(-1, 1, (NUM_RANGES,), np.float32)}))
    with pytest.raises(ValueError, match="normalize_depth=True"):
        make_policy("paper", space("depth", farthest=10.0))
    with pytest.raises(ValueError, match=r"cannot read sensor 'left/depth', .*: pass one camera without a name"):
        make_policy("small", Dict({**space("depth"), "left/depth": Box(0, 1, (8, 8, 1), np.float32)}))
    with pytest.raises(ValueError, match="4x4 or more"):
        make_policy("small", space("depth", side=3))


class InFunctions:
    """The forward pass of a policy, told again from its weights in functions alone, in float64."""

    def __init__(self, policy):
        self.weights = {name: values.double() for name, values in policy.state_dict().items()}

    def linear(self, name, inputs):
        return F.linear(inputs, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def convolve(self, name, pictures, stride, padding):
        return F.conv2d(pictures, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"), stride, padding)

    def block(self, name, pictures, stride):
        """Apply a Fixup block with squeeze-excite: biases around each convolution, a scale, a gated residual."""
        before_first, after_first, before_second, after_second = (
            self.weights[f"{name}.biases.{index}"] for index in range(4)
        )
        hidden = F.relu(self.convolve(f"{name}.first", pictures + before_first, stride, 1) + after_first)
        residual = self.convolve(f"{name}.second", hidden + before_second, 1, 1) * self.weights[f"{name}.scale"]
        residual = residual + after_second
        narrow = F.relu(self.linear(f"{name}.excite.gate.0", residual.mean((2, 3))))
        residual = residual * self.linear(f"{name}.excite.gate.2", narrow).sigmoid()[..., None, None]
        if stride == 1:
            return F.relu(residual + pictures)
        pooled = F.avg_pool2d(pictures + before_first, 3, 2, padding=1)
        return F.relu(residual + self.convolve(f"{name}.shortcut.1", pooled, 1, 0))

    def features(self, kind, depth):
        """Return the encoder's features of depth [N, H, W]."""
        code = depth.clamp(min=0.005).log() / -np.log(0.005) * 2 + 1  # from -1 to 1
        coded = torch.stack([code, (depth >= 1).double()], dim=1)
        if kind in ("small", "compact"):
            pictures = coded if kind == "compact" else depth[:, None]
            for layer, stride, padding in ((0, 4, 0), (2, 2, 1), (4, 2, 1)):
                pictures = F.relu(self.convolve(f"encoder.convolutions.{layer}", pictures, stride, padding))
        else:
            bins = F.one_hot((depth * 10).long().clamp(max=9), 10).permute(0, 3, 1, 2)
            pictures = coded if kind == "narrow" else torch.cat([depth[:, None], bins], dim=1)
            pictures = F.relu(self.convolve("encoder.stem", pictures, 4, 0))
            for index, stride in enumerate((1, 2, 2, 2)):
                pictures = self.block(f"encoder.blocks.{index}", pictures, stride)
            pictures = F.relu(self.convolve("encoder.compress", pictures, 1, 1))
        hidden = self.linear("encoder.linear", pictures.flatten(1))
        norm = (self.weights[f"encoder.norm.{name}"] for name in ("weight", "bias"))
        return F.relu(F.layer_norm(hidden, hidden.shape[1:], *norm))

    def cell(self, function, layer, inputs, state):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return function(inputs, state, *(self.weights[f"core.cells.{name}_l{layer}"] for name in names))

    def step(self, kind, depth, goal, previous, begun, state):
        """Return logits [N, 4], values [N] and the state [rows, N, H]."""
        state = state * ~begun[:, None]
        distance, angle = goal.unbind(-1)
        if kind in ("compact", "narrow"):
            distance = distance.log1p()
        inputs = [
            self.weights["action_embedding.weight"][(previous + 1) * ~begun],
            self.linear("goal_embedding", torch.stack([distance, torch.cos(-angle), torch.sin(-angle)], dim=-1)),
        ]
        if kind != "blind":
            inputs.append(self.features(kind, depth))
        output = torch.cat(inputs, dim=-1)
        if kind == "paper":
            first = self.cell(torch.lstm_cell, 0, output, (state[0], state[2]))
            second = self.cell(torch.lstm_cell, 1, first[0], (state[1], state[3]))
            state = torch.stack([first[0], second[0], first[1], second[1]])
            output = second[0]
        else:
            output = self.cell(torch.gru_cell, 0, output, state[0])
            state = output[None]
        return self.linear("actor", output), self.linear("critic", output)[:, 0], state


@pytest.mark.parametrize("kind", ["paper", "narrow", "compact", "small", "blind"])
def test_three_steps_are_those_of_the_formulas(kind):
    """With weights for which every parameter matters."""
    torch.manual_seed(0)
    policy = make_policy(kind, space("depth", side=32))
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.ndim <= 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
        for name, parameter in policy.named_parameters():
            if name.endswith("second.weight"):  # zero at the start
                parameter.normal_(std=0.02)
        policy.actor.weight.normal_()
    observation = observations(side=32, steps=3, envs=2)
    observation["depth"][..., :9, :, :] = 1  # nothing hit
    observation["depth"][..., 20:, 20:, :] *= 0.01
    observation[GOAL][..., 0].abs_()
    begun = torch.tensor([[True, False], [False, False], [False, True]])
    state = torch.randn_like(policy.initial_state(2))
    with torch.no_grad():
        logits, values, _ = policy(observation, state, begun)
    twin = InFunctions(policy)
    state = state.double()
    for step in range(3):
        depth, goal = observation["depth"][step, ..., 0].double(), observation[GOAL][step].double()
        *expected, state = twin.step(kind, depth, goal, observation[PREVIOUS_ACTION][step], begun[step], state)
        for found, one in zip((logits[step], values[step]), expected, strict=True):
            torch.testing.assert_close(found.double(), one, rtol=1e-3, atol=1e-4)


def test_hidden_sensors_are_predicted_and_not_read():
    policy = make_policy("small", space("depth", "walk_scan", "rgb"), hidden=("walk_scan", "rgb"))
    torch.nn.init.normal_(policy.actor.weight)
    assert policy.task_sensors == (GOAL,) and policy.encoder.channels.sensors == ("depth",)
    observation = observations()
    begun = torch.zeros(STEPS, ENVS, dtype=torch.bool)
    with torch.no_grad():
        logits, *_, predicted = policy(observation, policy.initial_state(ENVS), begun, predict=True)
        blinded = {**observation, "walk_scan": 0 * observation["walk_scan"], "rgb": 0 * observation["rgb"]}
        assert torch.equal(policy(blinded, policy.initial_state(ENVS), begun)[0], logits)
        assert predicted.keys() == {"walk_scan"} and predicted["walk_scan"].shape == (STEPS, ENVS, NUM_RANGES)
        # Readings are predicted as logarithms from -1 at 0 to 1 at the reach.
        exact = 2 * torch.log1p(observation["walk_scan"] / 0.1) / np.log1p(REACH / 0.1) - 1
        assert policy.prediction_loss("walk_scan", exact, observation["walk_scan"]) < 1e-10
        assert policy.prediction_loss("walk_scan", exact + 0.5, observation["walk_scan"]).item() == pytest.approx(0.25)
