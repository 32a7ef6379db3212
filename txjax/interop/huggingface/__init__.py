"""Weights in Hugging Face layouts: a folder with config.json and safetensors, read and written tensor by tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from txjax.config import Model
from txjax.interop import table
from txjax.interop.huggingface import files
from txjax.interop.huggingface.family import Family, family_for, family_of, known_families
from txjax.models import Decoder
from txjax.schema import ConfigError
from txjax.store.files import StoreError, reason, write_json

__all__ = ["Family", "Weights", "family_for", "family_of", "known_families", "read", "write"]


class Weights(NamedTuple):
    """A model and its parameters, float32 in host memory. passed: names of tensors of other heads than the model's,
    which its files held beside it.
    """

    model: Model
    params: Any
    passed: Sequence[str] = ()


def read(folder: Path) -> Weights:
    """The model of a folder with config.json and safetensors, in one file or in shards with an index.

    Tensors are taken one after the other, so that memory holds the model and about one tensor. ConfigError names
    what config.json says that no model of ours has, and every tensor that is missing, misshapen or not of the model.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise ConfigError(f"{folder} has no config.json: give a folder as transformers saves one")
    config = files.read_json(path)
    if not isinstance(config, dict):
        raise ConfigError(f"{path} is no config of a model: it must be a group of fields")
    if (quantised := config.get("quantization_config")) is not None:
        by = quantised.get("quant_method", "no method named") if isinstance(quantised, dict) else quantised
        raise ConfigError(
            f"{path} describes quantised weights ({by}): give those before quantisation, or what transformers saves "
            "after dequantizing them"
        )
    family = family_of(config.get("model_type"))
    model = family.model(config)
    tensors = files.stored(folder)
    odd = [
        f"{name} is {t.type}"
        for name, t in tensors.items()
        if t.type not in files.FLOATS and not family.is_buffer(name)
    ]
    if odd:
        raise ConfigError(f"{folder}: weights must be of type {', '.join(files.FLOATS)}; {odd[0]}")
    return Weights(model, *family.read(Decoder(model), tensors))


def write(
    folder: Path,
    model: Model,
    params: Any,
    *,
    family: Family | None = None,
    shard: int = files.SHARD,
    more: Mapping[str, Any] | None = None,
) -> Family:
    """config.json and safetensors in a folder that is there, as transformers loads them; the family that was written.

    family: none: the first that can hold the model. shard: bytes of a file, at most. more: fields of config.json that
    say nothing of the model, the ids of a text's ends, say. ConfigError where the model is
    not one of the family, StoreError where files cannot be written.
    """
    family = family or family_for(model)
    config = family.config(model)
    decoder = Decoder(model)
    shapes = {name: tensor.shape for name, tensor in table.places(family.table, decoder).items()}
    try:
        files.put(folder, shapes, table.write(family.table, decoder, params), shard)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {reason(error)}") from error
    write_json(folder / "config.json", config | dict(more or {}))
    return family
