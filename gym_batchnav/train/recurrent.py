"""Recurrent cores: an LSTM or GRU over time, whose state is reset where an episode begins."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class RecurrentCore(nn.Module):
    """An ``"lstm"`` or ``"gru"`` with stacked layers, whose state is reset where an episode begins."""

    def __init__(self, kind: str, num_inputs: int, hidden_size: int, num_layers: int = 1) -> None:
        super().__init__()
        self.kind = kind
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.num_rows = num_layers * (2 if kind == "lstm" else 1)  # of the state; an LSTM has hidden and cell rows
        self.cells = (nn.LSTM if kind == "lstm" else nn.GRU)(num_inputs, hidden_size, num_layers)
        for name, parameter in self.cells.named_parameters():
            if "weight" in name:
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, inputs: Tensor, state: Tensor, begun: Tensor) -> tuple[Tensor, Tensor]:
        """Map inputs [T, N, F], state [rows, N, H] and begun [T, N] bool to outputs [T, N, H] and the next state."""
        device = inputs.device.type
        if self.kind == "gru":
            lowered = torch.is_autocast_enabled(device)
            precision = torch.get_autocast_dtype(device) if lowered else state.dtype
            states = []
            with torch.autocast(device, enabled=False):
                for own, weights in zip(state, self.cells.all_weights, strict=True):
                    inputs, last = _GRULayer.apply(precision, inputs, own, begun, *weights)
                    states.append(last)
            return inputs, torch.stack(states)
        outputs = []
        for now, begins in zip(inputs, begun, strict=True):
            hidden, cell = state.masked_fill(begins[:, None], 0).chunk(2)
            output, halves = self.cells(now[None], (hidden, cell))
            state = torch.cat(halves)
            outputs.append(output)
        return torch.cat(outputs), state


class _GRULayer(torch.autograd.Function):
    """A layer of nn.GRU over T steps, with resets.

    The gradient of each weight matrix is one product over all steps. Automatic differentiation adds a product per
    step, which reads and writes the whole matrix for the few environments of a mini-batch. Matrix products and
    biases have a precision that may be lower, all else that of the state.
    """

    @staticmethod
    def forward(
        ctx: Any,
        precision: torch.dtype,
        inputs: Tensor,
        state: Tensor,
        begun: Tensor,
        input_weight: Tensor,
        state_weight: Tensor,
        input_bias: Tensor,
        state_bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Map inputs [T, N, F], state [N, H] and begun [T, N] to outputs [T, N, H] and the last of them."""
        num_steps, num_envs, _ = inputs.shape
        size = state.shape[-1]
        kept = (~begun)[..., None].to(state.dtype)
        inputs, input_weight, state_weight, input_bias, state_bias = (
            one.to(precision) for one in (inputs, input_weight, state_weight, input_bias, state_bias)
        )
        from_inputs = torch.addmm(input_bias, inputs.flatten(0, 1), input_weight.t()).unflatten(0, begun.shape)
        from_inputs = from_inputs.to(state.dtype)
        befores = state.new_empty(num_steps, num_envs, size)  # states before the steps, after resets
        gates = state.new_empty(num_steps, num_envs, 4 * size)
        outputs = state.new_empty(num_steps, num_envs, size)
        for step in range(num_steps):
            before = torch.mul(state, kept[step], out=befores[step])
            from_state = torch.addmm(state_bias, before.to(precision), state_weight.t())
            reset_update, candidate, recalled = gates[step].split((2 * size, size, size), dim=-1)
            torch.add(from_inputs[step, :, : 2 * size], from_state[:, : 2 * size], out=reset_update).sigmoid_()
            recalled.copy_(from_state[:, 2 * size :])
            reset, update = reset_update.chunk(2, dim=-1)
            torch.addcmul(from_inputs[step, :, 2 * size :], reset, recalled, out=candidate).tanh_()
            state = torch.lerp(candidate, before, update, out=outputs[step])
        ctx.save_for_backward(inputs, kept, input_weight, state_weight, befores, gates)
        return outputs, state.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_outputs: Tensor, of_state: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of inputs, state and weights from those of outputs [T, N, H] and last state [N, H]."""
        inputs, kept, input_weight, state_weight, befores, gates = ctx.saved_tensors
        size = befores.shape[-1]
        precision = inputs.dtype
        reset, update, candidate, recalled = gates.chunk(4, dim=-1)
        # Derivatives of outputs by candidates, and of outputs and candidates by gates, before their nonlinearities.
        by_candidate = (1 - update) * (1 - candidate.square())
        by_update = (befores - candidate) * update * (1 - update)
        by_reset = recalled * reset * (1 - reset)
        # Of the sums before nonlinearities: reset, update, candidate with and without the reset gate's factor.
        sums = torch.empty_like(gates)
        gradient = of_state
        for step in reversed(range(len(inputs))):
            gradient = gradient + of_outputs[step]
            of_reset, of_update, of_recalled, of_candidate = sums[step].chunk(4, dim=-1)
            torch.mul(gradient, by_candidate[step], out=of_candidate)
            torch.mul(gradient, by_update[step], out=of_update)
            torch.mul(of_candidate, by_reset[step], out=of_reset)
            torch.mul(of_candidate, reset[step], out=of_recalled)
            through_gates = sums[step, :, : 3 * size].to(precision) @ state_weight
            gradient = torch.addcmul(through_gates, gradient, update[step]).mul_(kept[step])
        sums = sums.flatten(0, 1).to(precision)
        from_states = sums[:, : 3 * size]
        from_inputs = torch.cat([sums[:, : 2 * size], sums[:, 3 * size :]], dim=-1)
        return (
            None,
            (from_inputs @ input_weight).unflatten(0, kept.shape[:2]),
            gradient,
            None,
            from_inputs.t() @ inputs.flatten(0, 1),
            from_states.t() @ befores.flatten(0, 1).to(precision),
            from_inputs.sum(0),
            from_states.sum(0),
        )
