"""Named sizes have the parameter counts of the published models, from shapes alone."""

from __future__ import annotations

import pytest

from txjax.models import build, presets
from txjax.models.costs import count_parameters
from txjax.schema import ConfigError

# Those of released weights agree with the weights; GPT-3's and the larger Llamas' follow from their papers' tables.
COUNTS = {
    "gpt1": 116_534_784,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "gpt3-small": 125_226_240,
    "gpt3-medium": 355_871_744,
    "gpt3-large": 760_300_032,
    "gpt3-xl": 1_315_723_264,
    "gpt3-2.7b": 2_651_553_280,
    "gpt3-6.7b": 6_658_404_352,
    "gpt3-13b": 12_853_386_240,
    "gpt3-175b": 174_604_259_328,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-33b": 32_528_943_616,
    "llama-65b": 65_285_660_672,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3.1-8b": 8_030_261_248,
}


def test_every_preset_has_its_count_here():
    assert COUNTS.keys() == presets.PUBLISHED.keys()


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.claim("C29", "E2", "E3")
def test_it_has_as_many_parameters_as_the_published_model(name: str):
    assert count_parameters(build(presets.named(name)).shapes()) == COUNTS[name]


def test_a_field_of_a_preset_can_be_changed():
    def count(layers: int) -> int:
        return count_parameters(build(presets.named("gpt2", num_layers=layers)).shapes())

    a_layer = 12 * 768**2 + 13 * 768  # matrices; biases of 4 + 4 + 1 D, and two norms of 2 D
    assert count(7) == COUNTS["gpt2"] - 5 * a_layer


@pytest.mark.parametrize(("name", "gates", "own"), [("rnn", 1, 1), ("gru", 3, 3), ("lstm", 4, 4), ("min_gru", 2, 0)])
def test_a_recurrent_model_is_its_layers_an_embedding_and_a_head(name: str, gates: int, own: int):
    D, V = 650, 10_000
    model = build(getattr(presets, name)(D, 2, vocab_size=V))
    a_layer = gates * (D * D + D) + own * D * D + (D if name == "gru" else 0)
    assert count_parameters(model.shapes()) == 2 * V * D + 2 * a_layer
    if name == "lstm":  # the medium model of Zaremba et al. 2014 has 2 x 6.76 M in its layers, with one bias a gate
        assert 2 * a_layer == 6_765_200


@pytest.mark.parametrize(("name", "nearest"), [("gpt2-xxl", "gpt2-xl"), ("lama-7b", "llama-7b")])
def test_a_preset_that_there_is_not_is_refused_with_the_nearest(name: str, nearest: str):
    with pytest.raises(ConfigError, match=f"no preset '{name}', did you mean '{nearest}'"):
        presets.named(name)


def test_what_the_presets_of_a_family_are():
    gpt1, gpt2, llama = (presets.named(name) for name in ("gpt1", "gpt2", "llama3.1-8b"))
    assert (gpt1.norm_placement, gpt2.norm_placement, llama.norm_placement) == ("post", "pre", "pre")
    assert (gpt1.position.kind, gpt2.norm.kind, gpt2.head.tied, gpt2.init.kind) == ("learned", "layer", True, "normal")
    assert (llama.norm.kind, llama.head.tied, llama.num_kv_heads, llama.attention.num_heads) == ("rms", False, 8, 32)
    assert llama.position.scaling.kind == "llama3" and llama.position.theta == 500_000.0  # type: ignore[attr-defined]
    assert presets.gpt2(bias=False).feedforward.bias is False  # type: ignore[attr-defined]
