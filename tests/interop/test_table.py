"""The table of names and layouts: complete or refused, and the same way back."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from txjax import presets
from txjax.config import Layer, SelfAttention
from txjax.interop.table import Row, places, read, write
from txjax.models import Decoder, build
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
    shapes = {name: place.their_shape for name, place in places(TABLE, model).items()}
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
    np.testing.assert_array_equal(Row("w", "w", "(N H) D -> D N H").to_theirs(ours), theirs)


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
