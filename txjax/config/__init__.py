"""The schema: one frozen dataclass an owner, each knob once, checked on construction.

Kinds that live beside their implementation (Dense, AdamW, FirstFit, ...) are importable from here by name too, so
that a config file needs one import line.
"""

from typing import TYPE_CHECKING, Any

from txjax.config.data import Chunking, Data, Objective, Source, Tokenizer
from txjax.config.model import Attention, Encoder, Layer, Model
from txjax.config.optim import Group, Optim, Optimizer, layerwise
from txjax.config.parts import Cross, Embedding, FeedForward, Head, Initialisation, Mixer
from txjax.config.root import Config
from txjax.config.train import Log, Mesh, Train
from txjax.ops.norms import Norm
from txjax.ops.positions import Position, RopeScaling
from txjax.ops.schedules import Schedule
from txjax.schema import ConfigError, Kind, Section, difference, flatten, from_dict, to_dict

if TYPE_CHECKING:  # the names that __getattr__ finds, for editors and type checkers
    pass

FAMILIES: tuple[type[Kind], ...] = (
    Position, RopeScaling, Norm, Schedule, Embedding, Mixer, Cross, FeedForward, Head, Initialisation, Optimizer,
    Source, Tokenizer, Chunking, Objective,
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """A member of any family by its class name."""
    if not name.startswith("_"):
        for family in FAMILIES:
            for member in family.members().values():
                if member.__name__ == name:
                    return member
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Attention", "Chunking", "Config", "ConfigError", "Cross", "Data", "Embedding", "Encoder", "FeedForward", "Group",
    "Head", "Initialisation", "Layer", "Log", "Mesh", "Mixer", "Model", "Norm", "Objective", "Optim", "Optimizer",
    "Position", "Schedule", "Section", "Source", "Tokenizer", "Train", "difference", "flatten", "from_dict",
    "layerwise", "to_dict",
]  # fmt: skip
