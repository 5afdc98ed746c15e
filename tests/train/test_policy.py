"""The policies: sizes, memory, and one interface for steps and sequences."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.task.sensors import WalkScan  # noqa: E402
from gym_batchnav.train.encoder import GOAL_PICTURES  # noqa: E402
from gym_batchnav.train.policy import GOAL, POLICIES, PREVIOUS_ACTION, make_policy  # noqa: E402

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


@pytest.mark.parametrize(
    ("sensor", "side", "count"),
    [("depth", 64, 10_988_085), ("rgb", 64, 10_979_893), ("depth", 128, 10_103_157), ("rgb", 128, 10_094_965)],
)
def test_the_papers_policy_has_the_papers_size(sensor, side, count):
    policy = make_policy("paper", space(sensor, side=side))
    assert sum(parameter.numel() for parameter in policy.parameters()) == count


@pytest.mark.parametrize("kind", POLICIES)
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


class TestGoalPictures:
    def spaces(self, name, width=SIDE, height=SIDE, seen="rgb"):
        picture = Box(0, 255, (height, width, 3), np.uint8)
        return Dict({**space(seen).spaces, name: picture})

    def observations(self, name):
        shape = (STEPS, ENVS, SIDE, SIDE, 3)
        generator = torch.Generator().manual_seed(3)
        return {**observations(), name: torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)}

    @pytest.mark.parametrize(
        ("kind", "name", "seen"), [("paper", GOAL_PICTURES[0], "rgb"), ("small", GOAL_PICTURES[-1], "depth")]
    )
    def test_they_count_and_need_three_more_channels(self, kind, name, seen):
        policy = make_policy(kind, self.spaces(name, seen=seen))
        plain = make_policy(kind, space(seen))
        assert policy.encoder.channels.num_channels == plain.encoder.channels.num_channels + 3
        assert policy.task_sensors == (GOAL, name) and plain.task_sensors == (GOAL,)
        torch.nn.init.normal_(policy.actor.weight)
        observation = self.observations(name)
        begun = torch.zeros(STEPS, ENVS, dtype=torch.bool)
        changed = {**observation, name: observation[name].flip(1)}
        with torch.no_grad():
            logits, *_ = policy(observation, policy.initial_state(ENVS), begun)
            other, *_ = policy(changed, policy.initial_state(ENVS), begun)
        assert (logits - other)[:, [0, 1, 3, 4]].abs().amax((0, 2)).min() > 1e-4
        torch.testing.assert_close(logits[0, 2], other[0, 2])  # its picture is the same

    @pytest.mark.parametrize("name", GOAL_PICTURES)
    def test_a_blind_policy_ignores_them(self, name):
        policy = make_policy("blind", self.spaces(name))
        assert policy.state_dict().keys() == make_policy("blind", space()).state_dict().keys()
        begun = torch.zeros(STEPS, ENVS, dtype=torch.bool)
        logits, *_ = policy(self.observations(name), policy.initial_state(ENVS), begun)
        assert logits.shape == (STEPS, ENVS, 4)

    @pytest.mark.parametrize("size", [(32, 32), (SIDE, 12), (12, SIDE)])
    def test_they_have_the_size_of_the_agents_images(self, size):
        with pytest.raises(ValueError, match=r"'imagegoal' of shape.*16x16 pixels.*camera.*ImageNav\(camera=camera\)"):
            make_policy("small", self.spaces("imagegoal", *size))


def test_ranges_are_embedded_by_their_logarithms():
    torch.manual_seed(0)
    policy = make_policy("scan", space("walk_scan"))
    (embed,) = policy.vector_embeddings
    scaled = 2 * np.log1p(np.array([0.0, 0.25, REACH]) / 0.1) / np.log1p(REACH / 0.1) - 1
    assert scaled[0] == -1 and scaled[2] == 1 and scaled[1] - scaled[0] > 0.6  # a step is a third of the scale
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
    with pytest.raises(ValueError, match="4x4 or more"):
        make_policy("small", space("depth", side=3))


class InNumPy:
    """The forward pass of a policy from the formulas, in float64, one environment at a time."""

    def __init__(self, policy):
        self.weights = {name: values.numpy().astype(float) for name, values in policy.state_dict().items()}

    def linear(self, name, inputs):
        return self.weights[f"{name}.weight"] @ inputs + self.weights.get(f"{name}.bias", 0.0)

    def convolve(self, name, picture, stride, padding):
        """Convolve an image [C, H, W] with the kernels [D, C, k, k] of a layer."""
        kernels = self.weights[f"{name}.weight"]
        size = kernels.shape[-1]
        padded = np.pad(picture, ((0, 0), (padding, padding), (padding, padding)))
        rows, columns = ((length - size) // stride + 1 for length in padded.shape[1:])
        result = np.empty((len(kernels), rows, columns))
        for row, column in np.ndindex(rows, columns):
            window = padded[:, row * stride : row * stride + size, column * stride : column * stride + size]
            result[:, row, column] = (kernels * window).sum((1, 2, 3))
        bias = self.weights.get(f"{name}.bias")
        return result if bias is None else result + bias[:, None, None]

    def normalized(self, name, inputs):
        spread = np.sqrt(inputs.var() + 1e-5)
        return (inputs - inputs.mean()) / spread * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def block(self, name, picture, stride):
        """Apply a Fixup block with squeeze-excite: biases around each convolution, a scale, a gated residual."""
        before_first, after_first, before_second, after_second = (
            self.weights[f"{name}.biases.{index}"] for index in range(4)
        )
        hidden = np.maximum(self.convolve(f"{name}.first", picture + before_first, stride, 1) + after_first, 0)
        residual = self.convolve(f"{name}.second", hidden + before_second, 1, 1) * self.weights[f"{name}.scale"]
        residual = residual + after_second
        narrow = np.maximum(self.linear(f"{name}.excite.gate.0", residual.mean((1, 2))), 0)
        residual *= sigmoid(self.linear(f"{name}.excite.gate.2", narrow))[:, None, None]
        if stride == 1:
            return np.maximum(residual + picture, 0)
        padded = np.pad(picture + before_first, ((0, 0), (1, 1), (1, 1)))
        rows, columns = hidden.shape[1:]
        pooled = np.empty((len(picture), rows, columns))
        for row, column in np.ndindex(rows, columns):
            pooled[:, row, column] = padded[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3].sum((1, 2)) / 9
        return np.maximum(residual + self.convolve(f"{name}.shortcut.1", pooled, 1, 0), 0)

    def features(self, kind, depth):
        """Return the encoder's features of depth [H, W]."""
        code = np.log(np.maximum(depth, 0.005)) / -np.log(0.005) * 2 + 1  # from -1 to 1
        coded = np.stack([code, depth >= 1])
        if kind in ("small", "compact"):
            picture = coded if kind == "compact" else depth[None]
            for layer, stride, padding in ((0, 4, 0), (2, 2, 1), (4, 2, 1)):
                picture = np.maximum(self.convolve(f"encoder.convolutions.{layer}", picture, stride, padding), 0)
        else:
            bins = np.minimum((depth * 10).astype(int), 9)
            one_hot = (np.arange(10)[:, None, None] == bins).astype(float)
            picture = coded if kind == "narrow" else np.concatenate([depth[None], one_hot])
            picture = np.maximum(self.convolve("encoder.stem", picture, 4, 0), 0)
            for index, stride in enumerate((1, 2, 2, 2)):
                picture = self.block(f"encoder.blocks.{index}", picture, stride)
            picture = np.maximum(self.convolve("encoder.compress", picture, 1, 1), 0)
        return np.maximum(self.normalized("encoder.norm", self.linear("encoder.linear", picture.ravel())), 0)

    def gates(self, which, layer, inputs, count):
        part = self.weights[f"core.cells.weight_{which}_l{layer}"] @ inputs
        return np.split(part + self.weights[f"core.cells.bias_{which}_l{layer}"], count)

    def lstm(self, layer, inputs, hidden, cell):
        pairs = zip(self.gates("ih", layer, inputs, 4), self.gates("hh", layer, hidden, 4), strict=True)
        enter, forget, candidate, leave = (one + other for one, other in pairs)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        return sigmoid(leave) * np.tanh(cell), cell

    def gru(self, inputs, hidden):
        reset, update, candidate = self.gates("ih", 0, inputs, 3)
        reset_by, update_by, candidate_by = self.gates("hh", 0, hidden, 3)
        keep = sigmoid(update + update_by)
        return (1 - keep) * np.tanh(candidate + sigmoid(reset + reset_by) * candidate_by) + keep * hidden

    def run(self, kind, depth, goal, previous, begun, state):
        """Return logits and values of T steps of one environment: depth [T, H, W], goal [T, 2], state [rows, H]."""
        logits = []
        values = []
        for step in range(len(goal)):
            action = 0 if begun[step] else previous[step] + 1
            state = state * (not begun[step])
            distance, angle = goal[step]
            if kind in ("compact", "narrow"):
                distance = np.log1p(distance)
            inputs = [
                self.weights["action_embedding.weight"][action],
                self.linear("goal_embedding", np.array([distance, np.cos(-angle), np.sin(-angle)])),
            ]
            if kind != "blind":
                inputs.append(self.features(kind, depth[step]))
            output = np.concatenate(inputs)
            if kind == "paper":
                rows = [self.lstm(0, output, state[0], state[2])]
                rows.append(self.lstm(1, rows[0][0], state[1], state[3]))
                state = np.stack([rows[0][0], rows[1][0], rows[0][1], rows[1][1]])
                output = rows[1][0]
            else:
                output = self.gru(output, state[0])
                state = output[None]
            logits.append(self.linear("actor", output))
            values.append(self.linear("critic", output)[0])
        return np.stack(logits), np.array(values)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


@pytest.mark.parametrize("kind", ["paper", "narrow", "compact", "small", "blind"])
def test_three_steps_are_those_of_the_formulas(kind):
    """Compare the whole forward pass with NumPy, with weights for which every parameter matters."""
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
    for env in range(2):
        expected_logits, expected_values = InNumPy(policy).run(
            kind,
            observation["depth"][:, env, ..., 0].numpy().astype(float),
            observation[GOAL][:, env].numpy().astype(float),
            observation[PREVIOUS_ACTION][:, env].numpy(),
            begun[:, env].numpy(),
            state[:, env].numpy().astype(float),
        )
        np.testing.assert_allclose(logits[:, env], expected_logits, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(values[:, env], expected_values, rtol=1e-3, atol=1e-4)


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


def test_the_papers_critic_begins_small():
    assert make_policy("paper", space("depth")).critic.weight.norm().item() == pytest.approx(0.1)
    assert make_policy("small", space("depth")).critic.weight.norm().item() == pytest.approx(1.0)
