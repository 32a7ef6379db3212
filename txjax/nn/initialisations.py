"""Laws of the initial weights, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass

from txjax.config.parts import Initialisation, Role
from txjax.schema import require


@dataclass(frozen=True)
class Normal(Initialisation, kind="normal"):
    """N(0, std^2); what writes onto the residual stream is divided by sqrt(2 L) where scale_residual. GPT-2, 2019.

    embedding_std: of the embedding and the position table; none: std.
    """

    std: float = 0.02
    embedding_std: float | None = None
    scale_residual: bool = True

    def check(self) -> None:
        require(self.std > 0, f"std must be positive, got {self.std}")

    def spread(self, role: Role, fan_in: int, num_layers: int) -> float:
        if role == "embedding" and self.embedding_std is not None:
            return self.embedding_std
        residual = role == "residual" and self.scale_residual
        return self.std / math.sqrt(2 * num_layers) if residual else self.std


@dataclass(frozen=True)
class FanIn(Initialisation, kind="fan_in"):
    """N(0, 1 / fan_in): unit-variance inputs give unit-variance outputs. LeCun et al. 1998.

    embedding_std: of the embedding and the position table; none: 1/sqrt of their width.
    """

    embedding_std: float | None = None

    def spread(self, role: Role, fan_in: int, num_layers: int) -> float:
        if role == "embedding" and self.embedding_std is not None:
            return self.embedding_std
        return fan_in**-0.5
