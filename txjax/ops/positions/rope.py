"""Rotary positions: queries and keys are turned, pair by pair, by angles that grow with the position."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.positions.base import Angles, Position
from txjax.schema import Kind, require


def rotate(
    x_BNTH: Float[Array, "B N T H"], angles: Angles, *, pairs: Literal["half", "interleaved"]
) -> Float[Array, "B N T H"]:
    """(a, b) -> (a cos - b sin, a sin + b cos) for each pair; the product of a query and a key so turned depends
    on the difference of their positions alone.

    angles: cosines and sines (#B, T, P) of the first P pairs; what is left of H stays as it is.
    pairs: half pairs i with i + P (Llama's weights in Hugging Face layout), interleaved 2i with 2i + 1 (Su et al.
    2021; Llama's own weights).
    """
    cos, sin = (t[:, None] for t in angles)
    turned, rest = jnp.split(x_BNTH, [2 * cos.shape[-1]], axis=-1)
    wide = turned.astype(jnp.float32)
    if pairs == "half":
        a, b = jnp.split(wide, 2, axis=-1)
        y = jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    else:
        a, b = wide[..., 0::2], wide[..., 1::2]
        y = jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(wide.shape)
    return jnp.concatenate([y.astype(x_BNTH.dtype), rest], axis=-1)


class RopeScaling(Kind, home="txjax.ops.positions.rope"):
    """How the frequencies of a trained model are stretched to reach further than it was trained."""

    def frequencies(self, theta: float, dim: int) -> Float[Array, " P"]:
        """Radians a position for each of dim / 2 pairs."""
        return theta ** (-jnp.arange(0, dim, 2, dtype=jnp.float32) / dim)

    def magnitude(self) -> float:
        """Factor on the turned vectors; its square is a temperature of the scores."""
        return 1.0


@dataclass(frozen=True)
class NoScaling(RopeScaling, kind="none"):
    """theta^(-2i/dim)."""


@dataclass(frozen=True)
class LinearScaling(RopeScaling, kind="linear"):
    """Position interpolation: positions divided by `factor`. Chen et al. 2023."""

    factor: float = 4.0

    def check(self) -> None:
        require(self.factor > 0, f"factor must be positive, got {self.factor}")

    def frequencies(self, theta: float, dim: int) -> Float[Array, " P"]:
        return super().frequencies(theta, dim) / self.factor


@dataclass(frozen=True)
class NTKScaling(RopeScaling, kind="ntk"):
    """theta' = theta factor^(dim/(dim-2)): the slowest pair is slowed by `factor`, the fastest not at all.

    bloc97 2023; Peng et al. 2024, section 3.1. The base is fixed, so that cached keys keep their rotation.
    """

    factor: float = 4.0

    def check(self) -> None:
        require(self.factor > 0, f"factor must be positive, got {self.factor}")

    def frequencies(self, theta: float, dim: int) -> Float[Array, " P"]:
        return super().frequencies(theta * self.factor ** (dim / (dim - 2)), dim)


@dataclass(frozen=True)
class YarnScaling(RopeScaling, kind="yarn"):
    """Slow pairs are interpolated, fast ones kept, those between blended; vectors grow by 0.1 mscale ln(factor) + 1.

    A pair is fast if it turns beta_fast times within the original context, slow if beta_slow times; the blend is
    linear in the pair's number, and truncate rounds its ends outwards to whole pairs, as the authors' code does, and
    gpt-oss (OpenAI 2025) does not. Peng et al. 2024, section 3.2 and 3.4; mscale, 0.707 in DeepSeek-V2: that model's
    code, 2024.
    """

    factor: float = 4.0
    original_context: int = 4096
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 1.0
    truncate: bool = True

    def check(self) -> None:
        require(self.factor >= 1, f"factor must be at least 1, got {self.factor}")
        require(self.original_context > 0, f"original_context must be at least 1, got {self.original_context}")

    def frequencies(self, theta: float, dim: int) -> Float[Array, " P"]:
        def pair_that_turns(times: float) -> float:
            return dim * math.log(self.original_context / (times * 2 * math.pi)) / (2 * math.log(theta))

        first, last = pair_that_turns(self.beta_fast), pair_that_turns(self.beta_slow)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, dim - 1)
        slow = jnp.clip((jnp.arange(dim // 2, dtype=jnp.float32) - first) / max(last - first, 0.001), 0, 1)
        kept = super().frequencies(theta, dim)
        return kept * (1 - slow) + kept / self.factor * slow

    def magnitude(self) -> float:
        return 0.1 * self.mscale * math.log(self.factor) + 1.0


@dataclass(frozen=True)
class Llama3Scaling(RopeScaling, kind="llama3"):
    """Wavelengths above original_context / low_factor are stretched by `factor`, those below
    original_context / high_factor kept, those between blended. Llama 3.1's model code, 2024.
    """

    factor: float = 8.0
    low_factor: float = 1.0
    high_factor: float = 4.0
    original_context: int = 8192

    def check(self) -> None:
        require(self.factor > 0, f"factor must be positive, got {self.factor}")
        require(
            self.high_factor > self.low_factor,
            f"high_factor must exceed low_factor={self.low_factor}, got {self.high_factor}",
        )

    def frequencies(self, theta: float, dim: int) -> Float[Array, " P"]:
        kept = super().frequencies(theta, dim)
        turns = self.original_context * kept / (2 * math.pi)
        fast = jnp.clip((turns - self.low_factor) / (self.high_factor - self.low_factor), 0, 1)
        return kept * fast + kept / self.factor * (1 - fast)


@dataclass(frozen=True)
class Rope(Position, kind="rope"):
    """See `rotate`. Su et al. 2021.

    theta: base of the wavelengths. fraction: share of the head that is turned.
    """

    theta: float = 10_000.0
    pairs: Literal["half", "interleaved"] = "half"
    fraction: float = 1.0
    scaling: RopeScaling = field(default_factory=NoScaling)

    def check(self) -> None:
        require(self.theta > 1, f"theta must exceed 1, got {self.theta}")
        require(0 < self.fraction <= 1, f"fraction must be in (0, 1], got {self.fraction}")

    def validate(self, *, head_dim: int, width: int, num_heads: int) -> None:
        dim = self.turned(head_dim)
        require(
            dim >= 2 and dim % 2 == 0,
            f"position.rope turns pairs and needs an even head_dim, got {dim} of head_dim={head_dim}",
        )

    def turned(self, head_dim: int) -> int:
        """Entries of a head that are rotated."""
        return int(head_dim * self.fraction)

    def angles(self, positions_BT: Int[Array, "#B T"], head_dim: int) -> Angles:
        # float32 whatever the compute type: bfloat16 cannot tell position 256 from 257
        frequency_P = self.scaling.frequencies(self.theta, self.turned(head_dim))
        angle_BTP = positions_BT[..., None].astype(jnp.float32) * frequency_P
        m = self.scaling.magnitude()
        return jnp.cos(angle_BTP) * m, jnp.sin(angle_BTP) * m

    def rotate(self, x_BNTH: Float[Array, "B N T H"], angles: Angles) -> Float[Array, "B N T H"]:
        return rotate(x_BNTH, angles, pairs=self.pairs)

    def temperature(self) -> float:
        return self.scaling.magnitude() ** 2
