"""A norm with its parameters."""

from __future__ import annotations

import flax.linen as nn
from jaxtyping import Array

from txjax.nn.parameters import declare
from txjax.ops.norms import Norm as NormKind


class Norm(nn.Module):
    """Any kind of norm over the last axis; axis is the logical name of that axis."""

    norm: NormKind
    axis: str = "embed"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        shape = (x.shape[-1],)
        parameters = {
            name: declare(self, name, shape, (self.axis,), mean=start) for name, start in self.norm.parameters().items()
        }
        return self.norm(x, parameters)
