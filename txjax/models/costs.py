"""What a model costs, counted from its own program and without running it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from txjax.batch import Batch
from txjax.config import Config
from txjax.config import Model as ModelConfig
from txjax.models.base import Model
from txjax.ops.moe.ragged import PROGRAMS as RAGGED


def count_parameters(tree: Any) -> int:
    """Numbers in a tree of arrays or of their shapes."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def active_parameters(model: Model, config: ModelConfig) -> int:
    """How many parameters one token uses: all but those of the experts that it does not go to. Of layers that share
    theirs: in one pass through them; in the next it may go to others.
    """
    stacks = [config] if config.encoder is None else [config, config.encoder_model]
    idle = sum(stack.feedforward_of(layer).idle(stack) for stack in stacks for layer in stack.distinct_layers)
    return count_parameters(model.shapes()) - idle


def matmul_flops(jaxpr: Any) -> int:
    """2 m k n of every matrix product in a jaxpr, inner programs included, a scan's body once an iteration. Of a ragged
    product, whose groups of rows have a matrix each, a row counts once, however many groups there are.

    Of a choice between platforms or branches the costliest branch counts.
    """
    total = 0
    for eqn in jaxpr.eqns:
        name, params = eqn.primitive.name, eqn.params
        if name == "dot_general":
            (contract, _), _ = params["dimension_numbers"]
            summed = math.prod(eqn.invars[0].aval.shape[i] for i in contract)
            total += 2 * summed * math.prod(eqn.outvars[0].aval.shape)
        elif name == "ragged_dot_general":
            total += _ragged_flops(eqn)
        elif params.get("name") in RAGGED:
            left, right = (v.aval.shape for v in eqn.invars[:2])
            total += 2 * math.prod(left) * right[-1]
        elif name == "cond":
            total += max(matmul_flops(branch.jaxpr) for branch in params["branches"])
        else:
            times = params["length"] if name == "scan" else params["mesh"].size if name == "shard_map" else 1
            for value in params.values():
                for inner in value if isinstance(value, (tuple, list)) else (value,):
                    inner = getattr(inner, "jaxpr", inner)
                    if hasattr(inner, "eqns"):
                        total += times * matmul_flops(inner)
    return total


def _ragged_flops(eqn: Any) -> int:
    """2 times all of the left side times the axes that the right side alone has, its groups not counted."""
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    (_, contract), (_, batch) = numbers.dot_dimension_numbers
    other = {*contract, *batch, *numbers.rhs_group_dimensions}
    own = [size for axis, size in enumerate(eqn.invars[1].aval.shape) if axis not in other]
    return 2 * math.prod(eqn.invars[0].aval.shape) * math.prod(own)


def sequential_depth(jaxpr: Any) -> int:
    """Operations on the longest chain in which each needs the result of the one before, a scan's rounds one after the
    other: the time of a forward pass on a machine without end, if every operation took one step. Of a choice between
    branches the longest counts. A while loop, whose rounds nobody knows, is refused: ValueError.

    The "sequential operations" of Vaswani et al. 2017, table 1: O(T) of a recurrent layer, O(1) of attention.
    """
    return max(_depths(jaxpr, [0] * len(jaxpr.invars)), default=0)


def _depths(jaxpr: Any, arguments: list[int]) -> list[int]:
    """The depth of each output, given those of the arguments."""
    depth = dict(zip(jaxpr.invars, arguments, strict=True))

    def of(variable: Any) -> int:
        return 0 if hasattr(variable, "val") else depth.get(variable, 0)  # a literal, or a constant

    for eqn in jaxpr.eqns:
        outputs = _equation_depths(eqn, [of(v) for v in eqn.invars])
        depth.update(zip(eqn.outvars, outputs, strict=True))
    return [of(v) for v in jaxpr.outvars]


def _equation_depths(eqn: Any, arguments: list[int]) -> list[int]:
    name, params = eqn.primitive.name, eqn.params
    if name == "while":
        raise ValueError("the depth of a while loop is not known: it has as many rounds as its condition wants")
    if name == "cond":
        each = [_depths(branch.jaxpr, arguments[1:]) for branch in params["branches"]]
        return [max(arguments[0], *outputs) for outputs in zip(*each, strict=True)]
    if name == "scan":
        return _scan_depths(eqn, arguments)
    if params.get("name") in RAGGED:  # a loop on a CPU alone
        return [1 + max(arguments)]
    for inner in params.values():
        inner = getattr(inner, "jaxpr", inner)
        if hasattr(inner, "eqns") and len(inner.invars) == len(arguments):
            return _depths(inner, arguments)
    return [1 + max(arguments, default=0)] * len(eqn.outvars)


def _scan_depths(eqn: Any, arguments: list[int]) -> list[int]:
    """Which arguments are constants and which the carry is told by ranks, since jax 0.12 has no counts of them: what is
    sliced, and what is stacked, has one axis more outside than inside.
    """
    body = eqn.params["jaxpr"].jaxpr
    sliced = sum(_rank(outer) > _rank(inner) for outer, inner in zip(eqn.invars, body.invars, strict=True))
    stacked = sum(_rank(outer) > _rank(inner) for outer, inner in zip(eqn.outvars, body.outvars, strict=True))
    carried = len(body.outvars) - stacked
    consts = len(body.invars) - sliced - carried
    fixed, carry, rows = arguments[:consts], arguments[consts : consts + carried], arguments[consts + carried :]
    outputs: list[int] = []
    for _ in range(eqn.params["length"]):
        outputs = _depths(body, fixed + carry + rows)
        carry = outputs[:carried]
    return carry + outputs[carried:]


def _rank(variable: Any) -> int:
    return len(variable.aval.shape)


def forward_program(model: Model, batch_size: int, length: int) -> Any:
    """The jaxpr of one forward pass over a batch, head included."""

    def forward(params: Any, batch: Batch) -> Any:
        return model.apply(params, batch).logits

    return jax.make_jaxpr(forward)(model.shapes(), model.inputs(batch_size, length)).jaxpr


def training_inputs(model: Model, batch_size: int, length: int) -> Batch:
    """Shapes of a batch with a target for each state that the model makes logits of."""
    inputs = model.inputs(batch_size, length)
    hidden = jax.eval_shape(lambda *of: model.apply(*of, unembed=False).hidden, model.shapes(), inputs)
    return dataclasses.replace(inputs, targets=jax.ShapeDtypeStruct(hidden.shape[:2], jnp.int32))


def forward_flops(model: Model, batch_size: int, length: int) -> int:
    """Matrix-product FLOPs of one forward pass over a batch, head included, as its program computes them: plain
    attention counts all scores, the recomputed form leaves out most of what causality hides.
    """
    return matmul_flops(forward_program(model, batch_size, length))


def train_flops_per_token(model: Model, length: int) -> float:
    """Model FLOPs of one training token at a sequence length: three forward passes, what is computed again for memory
    not counted. Divided by seconds a token and the device's peak it is the model FLOPs utilisation (MFU) of
    Chowdhery et al. 2022, appendix B.
    """
    return 3 * forward_flops(model, 1, length) / length


def memory(model: Model, config: Config) -> dict[str, float]:
    """Bytes of one unsharded copy of what training holds, by what it is, and where the model writes text of a text's
    state: what there is at any length, and what a token adds.
    """
    shapes = model.shapes()
    parameters = _bytes(shapes)
    moments = jax.eval_shape(config.optim.optimizer.direction(model.axes()).init, shapes)

    def cache(tokens: int) -> float:
        prompt = model.inputs(1, 1)
        return _bytes(jax.eval_shape(lambda params, batch: model.prefill(params, batch, tokens)[1], shapes, prompt))

    rows = config.train.batch_size // config.train.accumulation
    inputs = model.inputs(rows, config.context)
    logits = jax.eval_shape(lambda params, batch: model.apply(params, batch).logits, shapes, inputs)
    scored = math.prod(logits.shape[:-1])
    held = {
        "parameters": parameters,
        "gradients": parameters,
        "optimizer": _bytes(moments),
        f"activations of {rows} x {config.context} tokens": saved_activations(model, rows, config.context),
        "logits held at once": min(scored, config.train.loss_chunk or scored) * logits.shape[-1] * 4,
    }
    if not config.model.generates:
        return held
    full = max(config.context, 2)  # where every window is full that can be
    more = cache(full) - cache(full - 1)
    return held | {"state of a text": cache(full) - full * more, "state, a token more": more}


def saved_activations(model: Model, batch_size: int, length: int) -> float:
    """Bytes that a forward pass up to the hidden states leaves for the backward pass, under the config's remat."""

    def pullback(params: Any, batch: Batch) -> Any:
        return jax.vjp(lambda p: model.apply(p, batch, unembed=False).hidden, params)[1]

    shapes = model.shapes()
    saved = jax.eval_shape(pullback, shapes, model.inputs(batch_size, length))
    return max(_bytes(saved) - _bytes(shapes), 0.0)  # the parameters are among what is saved


def _bytes(tree: Any) -> float:
    return float(sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)))
