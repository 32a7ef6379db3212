"""How the order of tokens enters the model; one file a scheme."""

from txjax.ops.positions.alibi import Alibi, alibi_slopes
from txjax.ops.positions.base import NoPosition, Position
from txjax.ops.positions.learned import Learned
from txjax.ops.positions.relative import Relative, relative_bucket
from txjax.ops.positions.rope import LinearScaling, Llama3Scaling, NTKScaling, Rope, RopeScaling, YarnScaling, rotate
from txjax.ops.positions.sinusoidal import Sinusoidal, sinusoidal_code

__all__ = [
    "Alibi", "Learned", "LinearScaling", "Llama3Scaling", "NTKScaling", "NoPosition", "Position", "Relative",
    "Rope", "RopeScaling", "Sinusoidal", "YarnScaling", "alibi_slopes", "relative_bucket", "rotate", "sinusoidal_code",
]  # fmt: skip
