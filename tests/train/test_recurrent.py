"""The recurrent core: gradients of the GRU over time, with resets, beside automatic differentiation of torch's GRU."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.train.recurrent import RecurrentCore  # noqa: E402


def step_by_step(core, inputs, state, begun):
    outputs = []
    for now, begins in zip(inputs, begun, strict=True):
        state = state * ~begins[:, None]
        output, state = core.cells(now[None], state)
        outputs.append(output[0])
    return torch.stack(outputs), state


@pytest.mark.parametrize("num_layers", [1, 2])
def test_a_gru_and_its_gradients_are_those_of_torch_step_by_step(num_layers):
    torch.manual_seed(0)
    core = RecurrentCore("gru", 5, 7, num_layers).double()
    for bias in (value for name, value in core.cells.named_parameters() if "bias" in name):
        torch.nn.init.normal_(bias)
    inputs = torch.randn(6, 4, 5, dtype=torch.float64, requires_grad=True)
    state = torch.randn(num_layers, 4, 7, dtype=torch.float64, requires_grad=True)
    begun = torch.zeros(6, 4, dtype=torch.bool)
    begun[0, 1] = begun[3, 1] = begun[3, 2] = begun[5, 3] = True
    weights = [torch.randn(6, 4, 7, dtype=torch.float64), torch.randn(num_layers, 4, 7, dtype=torch.float64)]
    found = []
    for function in (core, lambda *given: step_by_step(core, *given)):
        results = function(inputs, state, begun)
        loss = sum((weight * one).sum() for weight, one in zip(weights, results, strict=True))
        found.append([*results, *torch.autograd.grad(loss, [inputs, state, *core.parameters()])])
    for own, expected in zip(*found, strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-12, atol=1e-12)
    assert not found[0][3][0, 1].any(), "a state before a reset has no influence"


def test_products_in_bfloat16_change_results_and_gradients_little():
    """bfloat16 rounds to 1 part in 256, and the state is not rounded between steps."""
    torch.manual_seed(0)
    core = RecurrentCore("gru", 48, 64)
    inputs, state = torch.randn(32, 16, 48, requires_grad=True), torch.randn(1, 16, 64, requires_grad=True)
    begun = torch.rand(32, 16) < 0.05
    found = []
    for lowers in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=lowers):
            outputs, last = core(inputs, state, begun)
        loss = outputs.square().sum() + last.sum()
        found.append([outputs, last, *torch.autograd.grad(loss, [inputs, state, *core.parameters()])])
    for plain, lowered in zip(*found, strict=True):
        assert lowered.dtype == torch.float32
        assert 0 < (lowered - plain).norm() / plain.norm() < 0.01
