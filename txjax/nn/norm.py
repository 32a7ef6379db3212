"""A norm with its parameters."""

from __future__ import annotations

import flax.linen as nn
import jax
from jaxtyping import Array

from txjax.nn.context import Context, set_parameter
from txjax.nn.parameters import declare
from txjax.ops.norms import Norm as NormKind
from txjax.schema import ConfigError


class Norm(nn.Module):
    """Any kind of norm over the last axes of x together, as many as `axes` gives logical names for.

    context: of the pass, which a norm that looks at other tokens needs; None where there is none.
    """

    norm: NormKind
    axes: tuple[str, ...] = ("embed",)

    @nn.compact
    def __call__(self, x: Array, context: Context | None = None) -> Array:
        shape = x.shape[-len(self.axes) :]
        flat = x.reshape(*x.shape[: -len(self.axes)], -1)

        def declared(starts: dict[str, float]) -> dict[str, Array]:
            return {n: declare(self, n, shape, self.axes, mean=start).ravel() for n, start in starts.items()}

        statistics = {n: jax.lax.stop_gradient(value) for n, value in declared(self.norm.statistics()).items()}
        parameters = declared(self.norm.parameters()) | statistics
        if statistics and context is None:
            where = "/".join(self.path)
            raise ConfigError(f"norm={self.norm.kind} looks at other tokens, and {where} has none: choose another norm")
        if not statistics or context is None or not context.train:
            return self.norm(flat, parameters).reshape(x.shape)
        y, after = self.norm.train(flat, parameters, real_tokens(flat, context))
        for name, value in after.items():
            set_parameter(self, name, jax.lax.stop_gradient(value).reshape(shape))
        return y.reshape(x.shape)


def real_tokens(x: Array, context: Context) -> Array | None:
    """Where x, (B, T, D) or (B, N, T, H), is no padding, in a shape that broadcasts to it."""
    if context.segments is None:
        return None
    real_BT1 = (context.segments > 0)[..., None]
    return real_BT1 if x.ndim == 3 else real_BT1[:, None]
