"""Models, and the presets with the sizes that have names."""

from txjax.config import Model as ModelConfig
from txjax.models.base import Model, Outputs
from txjax.models.decoder import Decoder


def build(config: ModelConfig) -> Model:
    """The model that a config describes."""
    return Decoder(config)


__all__ = ["Decoder", "Model", "Outputs", "build"]
