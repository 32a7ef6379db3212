"""The layers of a model: its pattern, scanned over the periods."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config import Model
from txjax.nn.block import Block
from txjax.nn.context import Context

REMAT = {
    "full": jax.checkpoint_policies.nothing_saveable,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


class Period(nn.Module):
    """One round of the pattern; `start` is the number of its first layer."""

    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Array, start: Array, states: tuple[Any, ...] | None, context: Context
    ) -> tuple[Array, tuple[Any, ...] | None]:
        after = []
        for i, layer in enumerate(self.model.pattern):
            state = None if states is None else states[i]
            x_BTD, state = Block(self.model, layer, name=f"block_{i}")(x_BTD, context, start + i, state)
            after.append(state)
        return x_BTD, None if states is None else tuple(after)


def stack(
    model: Model, x_BTD: Float[Array, "B T D"], context: Context, states: dict[str, Any] | None = None
) -> tuple[Float[Array, "B T D"], dict[str, Any] | None]:
    """first_layers, then the periods as one scan, inside a module's compact call: the program does not grow with depth.

    states: {"first": one a layer, "layers": one a block of the pattern, stacked over periods}, or None.
    """
    first = []
    for i, layer in enumerate(model.first_layers):
        state = None if states is None else states["first"][i]
        x_BTD, state = remat(Block, model)(model, layer, name=f"first_{i}")(x_BTD, context, i, state)
        first.append(state)
    starts = len(model.first_layers) + len(model.pattern) * jnp.arange(model.periods)
    periods = nn.scan(
        remat(Period, model),
        variable_axes={"params": 0, "captured": 0},
        split_rngs={"params": True},
        in_axes=(0, 0, nn.broadcast),  # type: ignore[arg-type]
        length=model.periods,
        unroll=model.periods if model.unroll == "all" else min(model.unroll, model.periods),
        metadata_params={nn.PARTITION_NAME: "layers"},
    )(model, name="layers")
    x_BTD, layers = periods(x_BTD, starts, None if states is None else states["layers"], context)
    return x_BTD, None if states is None else {"first": tuple(first), "layers": layers}


def remat(module: Any, model: Model) -> Any:
    """The module, computed again in the backward pass as the config says."""
    if model.remat == "none":
        return module
    return nn.remat(module, policy=REMAT[model.remat], prevent_cse=False)
