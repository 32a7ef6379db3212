"""Fixed sines and cosines of geometrically spaced wavelengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.positions.base import Position
from txjax.schema import require


def sinusoidal_code(
    positions: Int[Array, "*B T"], width: int, *, base: float, pairs: Literal["half", "interleaved"]
) -> Float[Array, "*B T D"]:
    """PE(p, 2i) = sin(p / base^(2i/D)), PE(p, 2i+1) = cos(p / base^(2i/D)), in float32.

    Wavelengths run from 2 pi to 2 pi base^((D-2)/D). PE(p+k) is a rotation of PE(p) that depends on k alone, and
    |PE(p)|^2 = D/2. Vaswani et al. 2017, section 3.5.

    pairs: interleaved as above, half all sines and after them all cosines (Junczys-Dowmunt et al. 2018, Marian).
    """
    frequency = base ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
    angle = positions[..., None].astype(jnp.float32) * frequency
    if pairs == "half":
        return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1)
    return jnp.stack([jnp.sin(angle), jnp.cos(angle)], -1).reshape(*positions.shape, width)


@dataclass(frozen=True)
class Sinusoidal(Position, kind="sinusoidal"):
    """x + sinusoidal_code(position)."""

    base: float = 10_000.0
    pairs: Literal["half", "interleaved"] = "interleaved"

    def validate(self, *, head_dim: int, width: int, num_heads: int) -> None:
        require(width % 2 == 0, f"position.sinusoidal needs an even width, got width={width}")

    def embed(
        self, x_BTD: Float[Array, "B T D"], positions_BT: Int[Array, "#B T"], tables: Mapping[str, Array]
    ) -> Float[Array, "B T D"]:
        code_BTD = sinusoidal_code(positions_BT, x_BTD.shape[-1], base=self.base, pairs=self.pairs)
        return x_BTD + code_BTD.astype(x_BTD.dtype)
