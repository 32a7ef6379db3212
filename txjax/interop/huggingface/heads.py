"""The head of a model by the class of theirs that config.json names in `architectures`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from txjax.config import Head, Model
from txjax.schema import ConfigError, field_types, nearest

CLASSES = 2  # where their config says no number


@dataclass(frozen=True)
class Heads:
    """by: each class with its head; the first is that of a config which names none. activations: their words for the
    activation of a head that has one, given as hidden_act; default: their word where that is absent; own_activation:
    classes whose head has the one in `by`, whatever it says. A classifier has as many outputs as id2label has entries.
    """

    by: Mapping[str, Head]
    activations: Mapping[str, str]
    default: str = "gelu"
    own_activation: tuple[str, ...] = ()

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        (name, *_) = config.get("architectures") or [next(iter(self.by))]
        if name not in self.by:
            hint = nearest(name, self.by)
            raise ConfigError(f"config.json: {name} is not known here{hint}; there are {', '.join(self.by)}")
        own, fields = {}, field_types(type(self.by[name]))
        if "outputs" in fields:
            labels = config.get("id2label")
            own["outputs"] = config.get("num_labels", CLASSES) if labels is None else len(labels)
        if "activation" in fields and name not in self.own_activation:
            word = config.get("hidden_act", self.default)
            own["activation"] = self.activations.get(word, "gelu")  # an unknown one is refused elsewhere
        return {"head": replace(self.by[name], **own)}  # type: ignore[type-var]

    def to_theirs(self, model: Model) -> dict[str, Any]:
        free = {"outputs", "activation"}

        def settled(head: Head) -> tuple[str, list[Any]]:
            return head.kind, [getattr(head, name) for name in field_types(type(head)) if name not in free]

        found = [name for name, head in self.by.items() if settled(head) == settled(model.head)]
        said: dict[str, Any] = {"architectures": found[:1] or [next(iter(self.by))]}
        outputs = getattr(model.head, "outputs", None)
        if outputs is not None and "outputs" in field_types(type(model.head)):
            names = [f"LABEL_{number}" for number in range(outputs)]
            said |= {"id2label": dict(zip(map(str, range(outputs)), names, strict=True))}
            said |= {"label2id": dict(zip(names, range(outputs), strict=True))}
        return said
