"""Recurrent cells and the causal convolution, against flax's cells and numbers worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import rnn as rnn_of_jax

from txjax.ops.convolution import causal_convolution
from txjax.ops.recurrence import (
    LSTMState,
    cudnn_lstm,
    gru,
    gru_gates,
    gru_step,
    lstm,
    lstm_gates,
    lstm_step,
    min_gru,
    min_gru_step,
    rnn,
    rnn_gate,
    rnn_step,
)
from txjax.schema import ConfigError

B, T, H = 2, 7, 5
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> jax.Array:
    return jnp.asarray(RANDOM.standard_normal(shape) * 0.7, jnp.float32)


W = {gates: normal(H, gates, H) for gates in (1, 3, 4)}
GRU_BIAS, FULL, DEPTHWISE, BIAS = normal(H), normal(3, H, H), normal(3, H), normal(H)
ZEROS = jnp.zeros((B, H))


def rnn_by_step(h: jax.Array, x: jax.Array, w: jax.Array) -> jax.Array:
    return rnn_step(h, rnn_gate(x, h @ w))


def gru_by_step(h: jax.Array, x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    return gru_step(h, gru_gates(x, jnp.einsum("bd,dgh->bgh", h, w).at[:, 2].add(b)))


def lstm_by_step(state: LSTMState, x: jax.Array, w: jax.Array) -> LSTMState:
    return lstm_step(state, lstm_gates(x, jnp.einsum("bd,dgh->bgh", state.hidden_BH, w)))


# Each sequence as a function of x and the initial state, what comes with x, an initial state, and one step.
Sequence = Callable[..., tuple[jax.Array, Any]]
CELLS: dict[str, tuple[Sequence, tuple[int, ...], Any, Callable[..., Any] | None]] = {
    "rnn": (partial(rnn, w_HH=W[1][:, 0], unroll=1), (H,), normal(B, H), partial(rnn_by_step, w=W[1][:, 0])),
    "gru": (
        partial(gru, w_H3H=W[3], b_H=GRU_BIAS, unroll=1),
        (3, H),
        normal(B, H),
        partial(gru_by_step, w=W[3], b=GRU_BIAS),
    ),
    "lstm": (
        partial(lstm, w_H4H=W[4], unroll=1),
        (4, H),
        LSTMState(normal(B, H), normal(B, H)),
        partial(lstm_by_step, w=W[4]),
    ),
    "min_gru": (min_gru, (2, H), normal(B, H), min_gru_step),
    "full convolution": (partial(causal_convolution, w=FULL, b_E=BIAS), (H,), normal(B, 2, H), None),
    "depthwise convolution": (partial(causal_convolution, w=DEPTHWISE, b_E=BIAS), (H,), normal(B, 2, H), None),
}
every_cell = pytest.mark.parametrize("name", CELLS)


@pytest.fixture(autouse=True)
def operation_by_operation():
    """Small programs take longer to compile than to run."""
    with jax.disable_jit():
        yield


def zeros_like(state: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, state)


def rows(state: Any, which: int | slice) -> Any:
    return jax.tree.map(lambda leaf: leaf[which], state)


def close(one: Any, other: Any, atol: float = 2e-6) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(partial(np.testing.assert_allclose, atol=atol), one, other)


# ---------------------------------------------------------------- the formulas


def test_the_tutorial_s_cell_by_hand():
    """h = tanh(W_xh x + W_hh h), two steps of one unit and of two."""
    one, first = rnn(jnp.full((1, 2, 1), 0.5), jnp.zeros((1, 1)), jnp.full((1, 1), 2.0), unroll=1)
    assert float(one[0, 0, 0]) == pytest.approx(math.tanh(0.5))
    assert float(first[0, 0]) == pytest.approx(math.tanh(0.5 + 2 * math.tanh(0.5)))
    x, h, w_xh, w_hh = (RANDOM.standard_normal(shape) for shape in [(4,), (2,), (2, 4), (2, 2)])
    want = np.tanh(w_xh @ x + w_hh @ h)  # matrices as torch.nn.Linear holds them: out, in
    got = rnn_by_step(jnp.asarray(h[None]), jnp.asarray(x[None] @ w_xh.T), jnp.asarray(w_hh.T))
    np.testing.assert_allclose(got[0], want, atol=1e-6)


def test_cudnn_is_given_the_weights_that_the_scan_has(monkeypatch: pytest.MonkeyPatch):
    """What would reach cuDNN, computed by jax's own reference for it: values, last states and gradients."""
    random = np.random.default_rng(3)
    B, T, D, H = 2, 5, 3, 4
    shapes = (B, T, D), (B, H), (B, H), (D, 4, H), (4, H), (H, 4, H)
    x, h, c, w, b, u = (jnp.asarray(random.standard_normal(shape), jnp.float32) for shape in shapes)

    def reference(x: Any, h: Any, c: Any, weights: Any, lengths: Any, *sizes: Any) -> Any:
        unpacked = rnn_of_jax.unpack_lstm_weights(weights, *sizes[:3], sizes[4])
        return rnn_of_jax.lstm_ref(x, h, c, *unpacked, lengths, *sizes)

    monkeypatch.setattr(rnn_of_jax, "lstm", reference)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    def fused(*arrays: jax.Array) -> Any:
        x, h, c, w, b, u = arrays
        return cudnn_lstm(x, LSTMState(h, c), w, b, u)

    def scanned(*arrays: jax.Array) -> Any:
        x, h, c, w, b, u = arrays
        return lstm(jnp.einsum("btd,dgh->btgh", x, w) + b, LSTMState(h, c), u, unroll=1)

    def loss(function: Any) -> Any:
        return lambda *arrays: sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(function(*arrays)))

    arrays = (x, h, c, w, b, u)
    for a, e in zip(jax.tree.leaves(fused(*arrays)), jax.tree.leaves(scanned(*arrays)), strict=True):
        np.testing.assert_allclose(a, e, atol=1e-6)
    found, expected = (jax.grad(loss(f), argnums=tuple(range(6)))(*arrays) for f in (fused, scanned))
    for a, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, e, atol=1e-5)


def test_cudnn_is_refused_where_it_cannot_serve(monkeypatch: pytest.MonkeyPatch):
    w, b = jnp.ones((3, 4, 3)), jnp.ones((4, 3))
    x, state = jnp.ones((1, 2, 3)), LSTMState(jnp.zeros((1, 3)), jnp.zeros((1, 3)))
    with pytest.raises(ConfigError, match=r"implementation=cudnn needs an NVIDIA GPU, found cpu: use scan"):
        cudnn_lstm(x, state, w, b, w)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.raises(ConfigError, match=r"implementation=cudnn cannot tell documents that are packed into a row"):
        cudnn_lstm(x, state, w, b, w, segments_BT=jnp.ones((1, 2), jnp.int32))


def test_an_lstm_by_hand():
    """All gates open: c = c + tanh(1), h = tanh(c); the forget gate shut: c = tanh(1)."""
    open_, shut, one = 50.0, -50.0, 1.0
    state, w = LSTMState(jnp.zeros((1, 1)), jnp.full((1, 1), 0.25)), jnp.zeros((1, 4, 1))
    kept = lstm_by_step(state, jnp.array([[[open_], [open_], [one], [open_]]]), w)
    lost = lstm_by_step(state, jnp.array([[[open_], [shut], [one], [open_]]]), w)
    for got, cell in ((kept, 0.25 + math.tanh(1)), (lost, math.tanh(1))):
        assert [float(x[0, 0]) for x in got] == pytest.approx([math.tanh(cell), cell])


def test_a_min_gru_by_hand():
    """Half of the way from 2 to 4, then from 3 to 5; in both the gate is sigmoid(0)."""
    y, last = min_gru(jnp.array([[[[0.0], [4.0]], [[0.0], [5.0]]]]), jnp.array([[2.0]]))
    assert y[0, :, 0].tolist() == [3.0, 4.0] and float(last[0, 0]) == 4.0


@pytest.mark.parametrize("w", [FULL, DEPTHWISE], ids=["full", "depthwise"])
def test_a_convolution_is_a_sum_over_the_last_inputs(w: jax.Array):
    x = np.asarray(normal(B, T, H))
    got, _ = causal_convolution(jnp.asarray(x), jnp.zeros((B, 2, H)), w, BIAS)
    matrices = np.asarray(w) if w.ndim == 3 else np.asarray(w)[:, :, None] * np.eye(H)
    want = np.tile(np.asarray(BIAS, np.float64), (B, T, 1))
    for t in range(T):
        for j in range(3):
            if t - 2 + j >= 0:
                want[:, t] += x[:, t - 2 + j] @ matrices[j]
    np.testing.assert_allclose(got, want, atol=1e-5)


def flax_weights(cell: nn.RNNCellBase, carry: Any, x_BD: jax.Array) -> Any:
    """Weights of flax's cell, biases too, of a visible size."""
    shapes = jax.eval_shape(cell.init, jax.random.key(0), carry, x_BD)["params"]
    return jax.tree.map(lambda leaf: normal(*leaf.shape), shapes)


def stacked(weights: Any, prefix: str, names: str, leaf: str) -> jax.Array:
    return jnp.stack([weights[prefix + name][leaf] for name in names], axis=-2)


def test_they_are_the_cells_of_flax():
    x_BTD = normal(B, T, 3)

    def by_flax(cell: nn.RNNCellBase, carry: Any, weights: Any) -> Any:
        shown = []
        for t in range(T):
            carry, y = cell.apply({"params": weights}, carry, x_BTD[:, t])
            shown.append(y)
        return jnp.stack(shown, axis=1), carry

    h, c = normal(B, H), normal(B, H)

    cell = nn.SimpleCell(H)
    weights = flax_weights(cell, h, x_BTD[:, 0])
    biases = sum(leaf for name, part in weights.items() for key, leaf in part.items() if key == "bias")
    x = x_BTD @ weights["i"]["kernel"] + biases
    close(rnn(x, h, weights["h"]["kernel"], unroll=1), by_flax(cell, h, weights))

    cell = nn.GRUCell(H)
    weights = flax_weights(cell, h, x_BTD[:, 0])
    x = jnp.einsum("btd,dgh->btgh", x_BTD, stacked(weights, "i", "rzn", "kernel")) + stacked(
        weights, "i", "rzn", "bias"
    )
    w = stacked(weights, "h", "rzn", "kernel")
    close(gru(x, h, w, weights["hn"]["bias"], unroll=1), by_flax(cell, h, weights))

    cell = nn.OptimizedLSTMCell(H)
    weights = flax_weights(cell, (c, h), x_BTD[:, 0])
    x = jnp.einsum("btd,dgh->btgh", x_BTD, stacked(weights, "i", "ifgo", "kernel"))
    x, w = x + stacked(weights, "h", "ifgo", "bias"), stacked(weights, "h", "ifgo", "kernel")
    y, last = lstm(x, LSTMState(h, c), w, unroll=1)
    close((y, (last.cell_BH, last.hidden_BH)), by_flax(cell, (c, h), weights))


# ---------------------------------------------------------------- sequences


@pytest.mark.parametrize("name", [name for name, (_, _, _, step) in CELLS.items() if step is not None])
def test_a_sequence_is_its_steps(name: str):
    sequence, shape, state, step = CELLS[name]
    x = normal(B, T, *shape)
    y, last = sequence(x, state)
    for t in range(T):
        state = step(state, x[:, t])  # type: ignore[misc]
        close(y[:, t], state.hidden_BH if isinstance(state, LSTMState) else state)
    close(last, state)


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_values_do_not_depend_on_the_unrolling(name: str):
    sequence, shape, initial, _ = CELLS[name]
    x = normal(B, T, *shape)
    close(sequence(x, initial, unroll=3), sequence(x, initial), atol=1e-6)


@every_cell
def test_a_sequence_goes_on_from_the_state_of_its_first_part(name: str):
    sequence, shape, initial, _ = CELLS[name]
    x = normal(B, T, *shape)
    whole, last = sequence(x, initial)
    for cut in (1, 4):
        first, state = sequence(x[:, :cut], initial)
        then, end = sequence(x[:, cut:], state)
        close((jnp.concatenate([first, then], axis=1), end), (whole, last))


@every_cell
def test_packed_documents_are_what_they_are_alone(name: str):
    """Rows of documents of 3, 2 and 1 tokens with padding between and behind, which is not finite."""
    sequence, shape, state, _ = CELLS[name]
    empty = zeros_like(state)
    segments = jnp.array([[1, 1, 1, 2, 2, 3, 0], [1, 0, 2, 2, 2, 0, 0]])
    x = normal(B, T, *shape)
    y, last = sequence(jnp.where((segments > 0).reshape(B, T, *[1] * len(shape)), x, 1e30), empty, segments_BT=segments)
    for row in range(B):
        for document in range(1, int(segments[row].max()) + 1):
            own = segments[row] == document
            alone, end = sequence(x[row : row + 1, own], rows(empty, slice(1)))
            close(y[row, own], alone[0])
        close(rows(last, row), rows(end, 0))
    assert (y[segments == 0] == 0).all()


@every_cell
@pytest.mark.bug("jax-ml/jax#15169", "pytorch/pytorch#517", "pytorch/pytorch#1811", "google/flax#2770")
@pytest.mark.bug("google/flax#2604")
def test_the_last_state_of_a_padded_row_is_that_of_its_last_token(name: str):
    """Of lengths 2, 5 and 0, from a state that is not zero; gradients are finite, and none goes to padding."""
    sequence, shape, state, _ = CELLS[name]
    lengths = jnp.array([2, 5, 0])
    segments = (jnp.arange(5) < lengths[:, None]).astype(jnp.int32)
    x, initial = normal(3, 5, *shape), jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf[:1]]), state)
    y, last = sequence(x, initial, segments_BT=segments)
    for row, length in enumerate(lengths):
        start = rows(initial, slice(row, row + 1))
        alone, end = sequence(x[row : row + 1, :length], start) if length else (jnp.zeros((1, 0, H)), start)
        close(y[row, :length], alone[0])
        close(rows(last, row), rows(end, 0))

    def total(x: jax.Array) -> jax.Array:
        y, last = sequence(x, initial, segments_BT=segments)
        return (y**2).sum() + sum((leaf**2).sum() for leaf in jax.tree.leaves(last))

    gradient = np.asarray(jax.grad(total)(x))
    assert np.isfinite(gradient).all()
    assert (np.abs(gradient).reshape(3, 5, -1).max(-1) > 0).tolist() == (segments > 0).tolist()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_gradients_are_those_of_the_steps_one_by_one(name: str, packed: bool):
    """Of x, the initial state and all weights, in float64, against plain autodiff through a Python loop."""
    sequence, shape, state, step = CELLS[name]
    with jax.enable_x64(True):
        weights = {"rnn": (W[1][:, 0],), "gru": (W[3], GRU_BIAS), "lstm": (W[4],)}[name]
        segments = jnp.array([[1, 1, 1, 2, 2, 3, 0], [1, 0, 2, 2, 2, 0, 0]]) if packed else None
        draw = np.random.default_rng(1)
        point = jax.tree.map(
            lambda a: jnp.asarray(a, jnp.float64), (draw.standard_normal((B, T, *shape)), state, weights)
        )
        c = draw.standard_normal((B, T, H))

        def value(y: jax.Array, last: Any) -> jax.Array:
            return (c * y).sum() + sum((leaf**2).sum() for leaf in jax.tree.leaves(last))

        def ours(x: jax.Array, initial: Any, weights: tuple[jax.Array, ...]) -> jax.Array:
            return value(*sequence.func(x, initial, *weights, unroll=2, segments_BT=segments))  # type: ignore[attr-defined]

        def one_by_one(x: jax.Array, state: Any, weights: tuple[jax.Array, ...]) -> jax.Array:
            shown = []
            for t in range(T):
                now, before = (1, 1) if segments is None else (segments[:, t, None], segments[:, max(t - 1, 0), None])
                start, real = jnp.not_equal(now, before) & jnp.greater(now, 0), jnp.greater(now, 0)
                old = jax.tree.map(lambda s, start=start: jnp.where(start, 0.0, s), state)
                new = step.func(old, x[:, t], *weights)  # type: ignore[union-attr]
                state = jax.tree.map(lambda s, o, real=real: jnp.where(real, s, o), new, old)
                shown.append(jnp.where(real, state.hidden_BH if name == "lstm" else state, 0.0))
            return value(jnp.stack(shown, axis=1), state)

        with jax.disable_jit(False):
            close(*(jax.jit(jax.grad(f, (0, 1, 2)))(*point) for f in (ours, one_by_one)), atol=1e-12)


def scans_of(jaxpr: Any) -> Iterator[Any]:
    """All scans of a program, those of its inner programs too."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "scan":
            yield eqn
        for inner in eqn.params.values():
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from scans_of(inner)


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_the_gradient_of_the_weights_is_one_product_after_the_loop(name: str):
    """No loop of the backward pass adds up anything of the size of the weights."""
    sequence, shape, initial, _ = CELLS[name]
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[name]
    w = W[gates][:, 0] if name == "rnn" else W[gates]
    rest = (GRU_BIAS,) if name == "gru" else ()

    def total(w: jax.Array) -> jax.Array:
        return sequence.func(jnp.ones((B, T, *shape)), initial, w, *rest, unroll=1)[0].sum()  # type: ignore[attr-defined]

    with jax.disable_jit(False):
        program = jax.make_jaxpr(jax.grad(total))(w)
    scans = list(scans_of(program.jaxpr))
    assert len(scans) == 2
    assert w.size not in {result.aval.size for scan in scans for result in scan.outvars}


@every_cell
def test_states_stay_float32_where_the_input_is_narrow(name: str):
    sequence, shape, initial, _ = CELLS[name]
    x = normal(B, T, *shape)
    narrow, last = sequence(x.astype(jnp.bfloat16), initial)
    assert {leaf.dtype for leaf in jax.tree.leaves(last)} == {jnp.dtype("float32")}
    wide, _ = sequence(x, initial)
    assert float(jnp.abs(narrow - wide).max()) < 0.05 * max(1.0, float(jnp.abs(wide).max()))
