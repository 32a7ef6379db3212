"""What a family declares, and what follows from it: a Model of a config.json and back, and the names of its tensors."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from txjax.config import Model
from txjax.interop import fits, table
from txjax.interop.huggingface.fields import ABSENT, Entry
from txjax.interop.table import Table
from txjax.models import Decoder
from txjax.nn.parameters import path_name
from txjax.schema import ConfigError, nearest, with_values

HEADS = ("head/", "pooler/", "next_sentence/")  # paths of parameters that another model over the same layers lacks


@dataclass(frozen=True)
class Family:
    """model_type: as config.json has it. architecture: their class, which is written; "" where a field says it.
    base: what all models of the family have in common. fields: config.json as a table. table: the tensors as one.
    prefix: of their names, which files of the bare model leave out.
    buffers: patterns of names that files may hold and that are no parameters.
    copies: {name: another's}, tensors that a file of tied weights may store a second time.
    older: pattern and replacement of names that older files have.
    zeros: tensors that a file may leave out, which are 0 then.
    free: fields of Model that config.json need not say, beside those of `fits.FREE`.
    """

    model_type: str
    base: Model
    fields: tuple[Entry, ...]
    table: Table
    architecture: str = ""
    prefix: str = ""
    buffers: tuple[str, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    older: tuple[tuple[str, str], ...] = ()
    zeros: tuple[str, ...] = ()
    free: tuple[str, ...] = ()

    def model(self, config: Mapping[str, Any]) -> Model:
        """The model that a config.json describes; ConfigError that names the field where it cannot be one of ours."""
        values: dict[str, Any] = {}
        for entry in self.fields:
            values |= entry.to_ours(config)
        try:
            return with_values(self.base, values)
        except ConfigError as error:
            raise ConfigError(f"config.json gives no model: model.{error}") from None

    def config(self, model: Model) -> dict[str, Any]:
        """The config.json of a model; ConfigError over the fields of which the family knows only one value."""
        fits.refuse(f"{self.model_type} as Hugging Face lays it out", self.unlike(model))
        return self._said(model)

    def unlike(self, model: Model) -> dict[str, tuple[Any, Any]]:
        """The fields, (theirs, ours), in which the nearest model of the family differs."""
        return fits.unlike(self.model(self._said(model)), model, self.free)

    def _said(self, model: Model) -> dict[str, Any]:
        config: dict[str, Any] = {"architectures": [self.architecture]} if self.architecture else {}
        config |= {"model_type": self.model_type, "dtype": "float32"}
        fallback: dict[str, Any] = {}
        base, model = fits.explicit(self.base), fits.explicit(model)
        for entry in self.fields:
            fallback |= entry.to_theirs(base)
            config |= entry.to_theirs(model)
        said = {name: fallback[name] if value is ABSENT else value for name, value in config.items()}
        return {name: None if value is ABSENT else value for name, value in said.items()}

    # ------------------------------------------------------------ tensors

    def read(self, model: Decoder, tensors: Mapping[str, Any]) -> tuple[Any, list[str]]:
        """The parameters, of tensors by their names (see `table.read`), and the names of tensors that were passed over:
        those of heads that the model has not.
        """
        wanted = table.places(self.table, model)
        kept = {name: t for name, t in self._named(wanted, tensors).items() if not self.is_buffer(name)}
        kept |= {name: np.zeros(wanted[name].shape, np.float32) for name in self.zeros if name in wanted.keys() - kept}
        heads = {row.theirs for row in self.table if row.ours.startswith(HEADS)}
        others = heads - wanted.keys() - dict(self.copies).keys()
        passed = [name for name in kept if name in others]
        for name in passed:
            del kept[name]
        copies = [(name, first) for name, first in self.copies if name not in wanted and first in wanted]
        second = {name: kept.pop(name) for name, _ in copies if name in kept}
        params = table.read(self.table, model, kept)
        for name, first in copies:
            if name in second:
                self._refuse_other_copy(model, params, name, second[name], first)
        return params, passed

    def _named(self, wanted: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Tensors by the names that the table has."""
        today = {self._of_today(name): tensor for name, tensor in tensors.items()}
        if not self.prefix or any(name.startswith(self.prefix) for name in today):
            return today
        known = (*wanted, *dict(self.copies))
        bare = {name.removeprefix(self.prefix) for name in known if name.startswith(self.prefix)}
        return {f"{self.prefix}{name}" if name in bare else name: tensor for name, tensor in today.items()}

    def _of_today(self, name: str) -> str:
        for pattern, replacement in self.older:
            name = re.sub(pattern, replacement, name)
        return name

    def is_buffer(self, name: str) -> bool:
        return any(re.search(pattern, name) for pattern in self.buffers)

    def _refuse_other_copy(self, model: Decoder, params: Any, name: str, stored: Any, first: str) -> None:
        """A tied weight that is stored twice, with two values, is no tied weight."""
        leaves = {path_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(params)}
        tensor = table.places(self.table, model)[first]
        ours = tensor.join([table.value(leaves[place.path], place) for place in tensor.pieces])
        if not np.array_equal(np.asarray(stored), ours):
            raise ConfigError(
                f"{name} is not {first}, though config.json ties them: set tie_word_embeddings to false there"
            )


HOME = "txjax.interop.huggingface.families"


def known_families() -> dict[str, Family]:
    """Every family by its model_type."""
    found = [importlib.import_module(f"{HOME}.{name}").FAMILY for name in _files()]
    return {family.model_type: family for family in found}


def family_of(model_type: Any) -> Family:
    """The family of that name, which is the name of its file; ConfigError where there is none."""
    name = str(model_type).replace("-", "_")
    if name not in _files():
        known = ", ".join(_files())
        raise ConfigError(f"model_type={model_type!r} is not known here{nearest(name, _files())}; there are {known}")
    return importlib.import_module(f"{HOME}.{name}").FAMILY


def _files() -> list[str]:
    return sorted(found.name for found in pkgutil.iter_modules(importlib.import_module(HOME).__path__))


def family_for(model: Model) -> Family:
    """The first family that can hold a model; ConfigError names what the nearest one cannot."""
    differences: dict[str, dict[str, tuple[Any, Any]]] = {}
    for name, family in known_families().items():
        with contextlib.suppress(ConfigError):  # nothing of the family's is near
            differences[name] = family.unlike(model)
    best = min(differences, key=lambda name: len(differences[name]))
    fits.refuse(f"no family of Hugging Face's can hold the model; the nearest, {best},", differences[best])
    return known_families()[best]
