"""The layers of a model: its pattern, scanned over the periods."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config import Model
from txjax.nn.block import Block
from txjax.nn.context import KEPT, Context, State

REMAT = {
    "full": jax.checkpoint_policies.nothing_saveable,
    "dots": jax.checkpoint_policies.save_only_these_names("product"),
}


class Period(nn.Module):
    """Round `number` of the pattern."""

    model: Model

    @nn.compact
    def __call__(
        self, carry: tuple[Array, tuple[Any, ...] | None], number: Array, context: Context
    ) -> tuple[tuple[Array, tuple[Any, ...] | None], None]:
        x_BTD, states = carry
        start = len(self.model.first_layers) + len(self.model.pattern) * number
        after = []
        for i, layer in enumerate(self.model.pattern):
            state = None if states is None else State(states[i], number)
            x_BTD, state = Block(self.model, layer, name=f"block_{i}")(x_BTD, context, start + i, state)
            after.append(None if state is None else state.stacked)
        return (x_BTD, None if states is None else tuple(after)), None


def stack(
    model: Model, x_BTD: Float[Array, "B T D"], context: Context, states: dict[str, Any] | None = None
) -> tuple[Float[Array, "B T D"], dict[str, Any] | None]:
    """first_layers, then the periods as one scan, inside a module's compact call: the program does not grow with depth.

    Periods that share their parameters are rounds of the scan with one set of them, which has no axis of layers.
    states: {"first": one a layer, "layers": one a block of the pattern, stacked over periods}, or None. The scan
    carries them from layer to layer: as its inputs and outputs they would be copied at every step of decoding.
    """
    first = []
    for i, layer in enumerate(model.first_layers):
        state = None if states is None else State(states["first"][i], 0)
        x_BTD, state = remat(Block, model)(model, layer, name=f"first_{i}")(x_BTD, context, i, state)
        first.append(None if state is None else state.stacked)
    shared = model.sharing == "periods"
    periods = nn.scan(
        remat(Period, model),
        variable_broadcast="params" if shared else False,
        variable_axes=dict.fromkeys(KEPT if shared else ("params", *KEPT), 0),
        split_rngs={"params": not shared},
        in_axes=(0, nn.broadcast),  # type: ignore[arg-type]
        length=model.periods,
        unroll=in_a_round(model, x_BTD, context),
        metadata_params={nn.PARTITION_NAME: "layers"},
        # what the rounds share is declared by the check; else nothing leaves the scan but the carry, and it would only
        # trace the body again
        check_constancy_invariants=shared,
    )(model, name="layers")
    layers = None if states is None else states["layers"]
    (x_BTD, layers), _ = periods((x_BTD, layers), jnp.arange(model.periods), context)
    return x_BTD, None if states is None else {"first": tuple(first), "layers": layers}


def in_a_round(model: Model, x_BTD: Float[Array, "B T D"], context: Context) -> int:
    """Periods that a round of the loop holds. Two for a step of a single text: XLA multiplies a vector by a matrix in
    one CPU thread, and with two layers in a round another copies the second one's weights meanwhile, which is up to a
    fifth faster. Of several texts it is not.
    """
    if model.unroll == "all":
        return model.periods
    alone = context.offset is not None and x_BTD.shape[:2] == (1, 1)
    return min(max(model.unroll, 2 if alone else 1), model.periods)


def remat(module: Any, model: Model) -> Any:
    """The module, computed again in the backward pass as the config says."""
    if model.remat == "none":
        return module
    return nn.remat(module, policy=REMAT[model.remat], prevent_cse=False)
