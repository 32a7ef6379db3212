"""The table of names and layouts: complete or refused, and the same way back."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from txjax import presets
from txjax.config import Layer, SelfAttention
from txjax.interop.table import Place, Row, Tensor, places, read, write
from txjax.models import Decoder, build
from txjax.nn.feedforwards.mixture import Mixture
from txjax.nn.parameters import path_name
from txjax.schema import ConfigError

TABLE = (
    Row("embedding/w", "embed.weight", "V D -> V D"),
    Row("layers/mixer_norm/gain", "h.{layer}.norm_1", "D -> D"),
    Row("layers/feedforward_norm/gain", "h.{layer}.norm_2", "D -> D"),
    Row("layers/attention/query/w", "h.{layer}.q", "(N H) D -> D N H"),
    Row("layers/attention/key/w", "h.{layer}.k", "(K H) D -> D K H"),
    Row("layers/attention/value/w", "h.{layer}.v", "D (K H) -> D K H"),
    Row("layers/attention/out/w", "h.{layer}.o", "D (N H) -> N H D"),
    Row("layers/dense/gate/w", "h.{layer}.gate", "F D -> D F"),
    Row("layers/dense/in/w", "h.{layer}.up", "F D -> D F"),
    Row("layers/dense/out/w", "h.{layer}.down", "D F -> F D"),
    Row("final_norm/gain", "norm", "D -> D"),
    Row("head/w", "head", "V D -> D V"),
)
LOCAL = Layer(mixer=SelfAttention(window=4))


def model_of(**changes: object) -> Decoder:
    """A small Llama, of 5 layers that are all alike unless it is said otherwise."""
    base = presets.llama(12, 5, 2, hidden=10, num_kv_heads=1, context=8, vocab_size=9)
    return build(replace(base, **changes))  # type: ignore[arg-type]


MODELS = {
    "scanned": model_of(),
    "periods": model_of(num_layers=6, pattern=(LOCAL, Layer())),
    "first layers": model_of(num_layers=8, first_layers=(Layer(), LOCAL), pattern=(LOCAL, Layer(), Layer())),
    "tied head": model_of(head="tied"),
}


def tensors_of(model: Decoder) -> dict[str, np.ndarray]:
    """A checkpoint in which every number is another."""
    shapes = {name: tensor.shape for name, tensor in places(TABLE, model).items()}
    random = np.random.default_rng(0)
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_in_and_out_again_is_the_same(model: Decoder):
    tensors = tensors_of(model)
    back = dict(write(TABLE, model, read(TABLE, model, tensors)))
    assert list(back) == list(tensors)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(back[name], tensor)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_each_layer_gets_its_own_tensors(model: Decoder):
    """Every tensor of theirs holds the number of its layer."""
    tensors = {
        name: np.full(tensor.shape, float(name.split(".")[1]) if name.startswith("h.") else 0.0, np.float32)
        for name, tensor in tensors_of(model).items()
    }
    params = read(TABLE, model, tensors)
    config = model.config
    for n in range(config.num_layers):
        before = len(config.first_layers)
        if n < before:
            block = params[f"first_{n}"]
        else:
            round_, i = divmod(n - before, len(config.pattern))
            block = jax.tree.map(lambda x, at=round_: x[at], params["layers"][f"block_{i}"])
        assert {float(x) for leaf in jax.tree.leaves(block) for x in np.ravel(leaf)} == {float(n)}


def test_the_layout_says_which_axis_is_which():
    """Entry (n, h, d) of ours is where a loop over their rows and columns finds it."""
    N, H, D = 2, 3, 5
    theirs = np.arange(N * H * D, dtype=np.float32).reshape(N * H, D)
    ours = Row("w", "w", "(N H) D -> D N H").to_ours(theirs, (D, N, H))
    for n, h, d in np.ndindex(N, H, D):
        assert ours[d, n, h] == theirs[n * H + h, d]
    back = Row("w", "w", "(N H) D -> D N H").to_theirs(ours)
    np.testing.assert_array_equal(back.reshape(N * H, D), theirs)


def test_values_may_be_read_when_they_are_asked_for():
    """Each tensor is taken once, after the shapes of all are known to fit."""
    taken: list[str] = []

    class Lazy:
        def __init__(self, name: str, values: np.ndarray) -> None:
            self.name, self.values, self.shape = name, values, values.shape

        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            taken.append(self.name)
            return self.values

    model = MODELS["scanned"]
    tensors = tensors_of(model)
    lazy = {name: Lazy(name, tensor) for name, tensor in tensors.items()}
    with pytest.raises(ConfigError):
        read(TABLE, model, lazy | {"more": Lazy("more", np.zeros(1))})
    assert not taken
    got, want = read(TABLE, model, lazy), read(TABLE, model, tensors)
    assert sorted(taken) == sorted(tensors)
    jax.tree.map(np.testing.assert_array_equal, got, want)


@pytest.mark.bug("AI-Hypercomputer/maxtext#4343")
def test_every_tensor_that_does_not_fit_is_named():
    model = MODELS["scanned"]
    tensors = tensors_of(model)
    del tensors["h.3.q"], tensors["norm"]
    tensors |= {"h.0.gate": tensors["h.0.gate"].T, "h.5.q": np.zeros((12, 12)), "h.0.rotary": np.zeros(6)}
    with pytest.raises(ConfigError) as refused:
        read(TABLE, model, tensors)
    assert str(refused.value) == (
        "the weights do not fit the model: h.3.q is missing; norm is missing; h.0.gate must be [10, 12], is [12, 10]; "
        "h.5.q [12, 12] is not of this model; h.0.rotary [6] is not of this model"
    )


def test_a_model_of_another_kind_lists_the_first_ten():
    with pytest.raises(ConfigError, match=r"embed.weight is missing; .* and 38 more$"):
        read(TABLE, MODELS["scanned"], {})


def test_a_parameter_without_a_row_is_refused():
    model = build(presets.gpt2(8, 2, 2, context=4, vocab_size=9))
    with pytest.raises(ConfigError, match="the layout has no place for the parameter final_norm/bias of this model"):
        places(TABLE, model)
    names = {path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(model.shapes())}
    assert "final_norm/bias" in names


# ---------------------------------------------------------------- fused and spread tensors


def test_pieces_lie_one_after_the_other_along_their_axis():
    """Two of unlike sizes, between the heads' rows of a fused tensor."""
    N, P, W, C = 2, 3, 4, 5
    rows = (Row("a", "both", "(N +H) C -> C N H"), Row("b", "both", "(N +H) C -> C N H"))
    tensor = Tensor((Place(rows[0], "a", (), (C, N, P)), Place(rows[1], "b", (), (C, N, W))))
    assert tensor.shape == (N * (P + W), C)
    theirs = np.arange(N * (P + W) * C, dtype=np.float32).reshape(tensor.shape)
    (_, a), (_, b) = tensor.split(theirs)
    for c, n in np.ndindex(C, N):
        np.testing.assert_array_equal(a[c, n], theirs[n * (P + W) : n * (P + W) + P, c])
        np.testing.assert_array_equal(b[c, n], theirs[n * (P + W) + P : (n + 1) * (P + W), c])
    np.testing.assert_array_equal(tensor.join([a, b]), theirs)


def test_pieces_may_be_entries_of_an_axis_that_ours_lack():
    """Query, key and value of each head in turn, as GPT-NeoX has them."""
    N, H, D = 3, 2, 4
    rows = [Row(name, "qkv", "(N +1 H) D -> D N H") for name in "qkv"]
    tensor = Tensor(tuple(Place(row, row.ours, (), (D, N, H)) for row in rows))
    theirs = np.arange(N * 3 * H * D, dtype=np.float32).reshape(N * 3 * H, D)
    assert tensor.shape == theirs.shape
    pieces = [ours for _, ours in tensor.split(theirs)]
    for which, (d, n, h) in ((i, at) for i in range(3) for at in np.ndindex(D, N, H)):
        assert pieces[which][d, n, h] == theirs[(n * 3 + which) * H + h, d]
    np.testing.assert_array_equal(tensor.join(pieces), theirs)


def test_an_axis_may_be_spread_over_tensors():
    """Each expert of a layer is a tensor of its own; the pattern stacks every second layer."""
    mixture = Mixture(num_experts=3, top_k=2, hidden=5, activation="relu", bias=False)
    model = build(presets.llama(8, 4, 2, context=4, vocab_size=9, pattern=(Layer(), Layer(feedforward=mixture))))
    rows = (*TABLE, Row("layers/mixture/router/w", "h.{layer}.gate", "E D -> D E"))
    rows += (Row("layers/mixture/in/w", "h.{layer}.{E}.up", "F D -> E D F"),)
    rows += (Row("layers/mixture/out/w", "h.{layer}.{E}.down", "D F -> E F D"),)
    wanted = places(rows, model)
    assert [name for name in wanted if name.endswith(".up") and name.count(".") == 3] == [
        f"h.{layer}.{expert}.up" for layer in (1, 3) for expert in range(3)
    ]
    random = np.random.default_rng(0)
    tensors = {name: random.standard_normal(tensor.shape).astype(np.float32) for name, tensor in wanted.items()}
    params = read(rows, model, tensors)
    np.testing.assert_array_equal(params["layers"]["block_1"]["mixture"]["in"]["w"][1, 2], tensors["h.3.2.up"].T)
    back = dict(write(rows, model, params))
    assert back.keys() == tensors.keys()
    for name in tensors:
        np.testing.assert_array_equal(back[name], tensors[name])


def test_a_shift_is_added_and_taken_away():
    row = Row("final_norm/gain", "norm", "D -> D", shift=1.0)
    rows = tuple(row if old.ours == row.ours else old for old in TABLE)
    model = MODELS["tied head"]
    tensors = tensors_of(model)
    params = read(rows, model, tensors)
    np.testing.assert_array_equal(params["final_norm"]["gain"], 1 + tensors["norm"])
    again = read(rows, model, dict(write(rows, model, params)))
    jax.tree.map(np.testing.assert_array_equal, again, params)
