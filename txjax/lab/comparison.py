"""What differs between two configs: settings, parameters and their values, the operations of a train step, FLOPs.

An ablation is only worth its answer if one thing changes. This shows what does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.interpreters import partial_eval

from txjax.config import Config
from txjax.models import build
from txjax.models.costs import count_parameters, forward_flops, training_inputs
from txjax.nn.parameters import path_name
from txjax.schema import difference
from txjax.train.state import hyper, initial_state
from txjax.train.step import make_train_step

Operations = Counter[tuple[str, str]]


@dataclass(frozen=True)
class Difference:
    """Of B against A, each part empty where they are alike.

    settings: {config path: (A, B)}. only_a, only_b, reshaped: parameters by path. identical: how many numbers of the
    parameters start bit for bit the same; other_values: paths of one shape whose numbers differ. operations: how many
    more times a (primitive, shape of its result) runs in a train step of B. traced: {knob: (A, B)} of numbers that are
    no part of the program. flops: of one training token, (A, B).
    """

    settings: dict[str, tuple[Any, Any]]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    reshaped: tuple[str, ...]
    identical: int
    other_values: tuple[str, ...]
    parameters: tuple[int, int]
    operations: dict[tuple[str, str], int]
    traced: dict[str, tuple[float, float]]
    flops: tuple[float, float]

    def lines(self) -> list[str]:
        """For people: what differs, one finding a line."""
        found = [f"{path}: {old} -> {new}" for path, (old, new) in self.settings.items()]
        found += [f"parameters: {a:,} -> {b:,}" if (a := self.parameters[0]) != (b := self.parameters[1]) else
                  f"parameters: {a:,} in both"]  # fmt: skip
        found.append(f"initial values: {self.identical:,} numbers are bit for bit the same")
        named = {"only in A": self.only_a, "only in B": self.only_b, "of another shape": self.reshaped,
                 "of other initial values": self.other_values}  # fmt: skip
        found += [f"parameters {what}: {', '.join(paths)}" for what, paths in named.items() if paths]
        found += [f"traced value {name}: {old:g} -> {new:g}" for name, (old, new) in self.traced.items()]
        if self.operations:
            shown = sorted(self.operations.items(), key=lambda item: (-abs(item[1]), item[0]))[:12]
            found += [f"operations: {count:+d} {name} {shape}" for (name, shape), count in shown]
            if len(self.operations) > len(shown):
                found.append(f"operations: and {len(self.operations) - len(shown)} kinds more")
        else:
            found.append("operations: the same program")
        a, b = self.flops
        found.append(
            f"FLOPs of a training token: {a:,.0f} in both"
            if a == b
            else f"FLOPs of a training token: {a:,.0f} -> {b:,.0f}"
        )
        return found


def compare(a: Config, b: Config) -> Difference:
    """Nothing is compiled but the drawing of parameters, and no data is read: vocabularies have to be known."""
    one, other = _shapes(a), _shapes(b)
    shared = [name for name in one if name in other]
    alike = [name for name in shared if one[name].shape == other[name].shape]
    values_a, values_b = _values(a), _values(b)
    same = {name: _same_numbers(values_a[name], values_b[name]) for name in alike}
    operations = Counter(step_operations(b))
    operations.subtract(step_operations(a))
    return Difference(
        settings=difference(a, b),
        only_a=tuple(name for name in one if name not in other),
        only_b=tuple(name for name in other if name not in one),
        reshaped=tuple(name for name in shared if name not in alike),
        identical=sum(same.values()),
        other_values=tuple(name for name in alike if same[name] < values_a[name].size),
        parameters=(count_parameters(one), count_parameters(other)),
        operations={key: count for key, count in operations.items() if count},
        traced=_traced(a, b),
        flops=(_flops(a), _flops(b)),
    )


def step_operations(config: Config) -> Operations:
    """How often each primitive runs in one train step, by its name and the shape of its result.

    The body of a scan counts once an iteration; what nothing depends on does not count.
    """
    model = build(config.model)
    batch = training_inputs(model, config.train.batch_size, config.context)
    step = jax.make_jaxpr(make_train_step(model, config))(
        jax.eval_shape(lambda: initial_state(config, model)), batch, hyper(config, model)
    )
    return _operations(step.jaxpr, 1)


def _operations(jaxpr: Any, times: int) -> Operations:
    jaxpr, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    found: Operations = Counter()
    for eqn in jaxpr.eqns:
        inner = [
            getattr(value, "jaxpr", value)
            for parameter in eqn.params.values()
            for value in (parameter if isinstance(parameter, (tuple, list)) else (parameter,))
            if hasattr(getattr(value, "jaxpr", value), "eqns")
        ]
        for program in inner:
            found += _operations(program, times * (eqn.params["length"] if eqn.primitive.name == "scan" else 1))
        if not inner and eqn.outvars:
            found[eqn.primitive.name, eqn.outvars[0].aval.str_short()] += times
    return found


def _shapes(config: Config) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(build(config.model).shapes())
    return {path_name(path): leaf for path, leaf in leaves}


def _values(config: Config) -> dict[str, np.ndarray]:
    model = build(config.model)
    params = jax.jit(lambda key: initial_state(config, model, key=key).params)(jax.random.key(config.train.seed))
    return {path_name(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(params)}


def _same_numbers(a: np.ndarray, b: np.ndarray) -> int:
    return int((a.view(np.uint32) == b.view(np.uint32)).sum())


def _traced(a: Config, b: Config) -> dict[str, tuple[float, float]]:
    def knobs(config: Config) -> dict[str, float]:
        leaves = jax.tree_util.tree_leaves_with_path(hyper(config, build(config.model)))
        return {jax.tree_util.keystr(path, simple=True, separator="."): float(leaf) for path, leaf in leaves}

    one, other = knobs(a), knobs(b)
    return {name: (one[name], other[name]) for name in one if name in other and one[name] != other[name]}


def _flops(config: Config) -> float:
    return 3 * forward_flops(build(config.model), 1, config.context) / config.context
