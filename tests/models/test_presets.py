"""Named sizes have the parameter counts of the published models, from shapes alone."""

from __future__ import annotations

from typing import Any

import pytest

from txjax.cli.inspect import report
from txjax.config import Config, Head
from txjax.models import build, presets
from txjax.models.costs import active_parameters, count_parameters
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.none import NoHead
from txjax.nn.heads.pooler import PoolerHead
from txjax.schema import ConfigError, with_values

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
    "olmo2-7b": 7_298_617_344,
    "olmo2-13b": 13_716_198_400,
    "olmo2-32b": 32_234_279_936,
    "bert-base": 110_106_428,
    "bert-large": 336_226_108,
    "roberta-base": 124_697_433,
    "roberta-large": 355_412_057,
    "albert-base": 11_221_680,
    "albert-large": 16_795_824,
    "albert-xlarge": 54_821_040,
    "albert-xxlarge": 206_368_944,
    "electra-small": 13_549_057,
    "electra-base": 109_483_009,
    "electra-large": 335_142_913,
    "modernbert-base": 149_655_232,
    "modernbert-large": 395_881_664,
    "vit-base": 86_567_656,
    "transformer-base": 63_045_632,  # at 37,000 ids; the paper says 65 M
    "transformer-big": 214_171_648,  # 213 M there
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-v1.1-small": 76_961_152,
    "t5-v1.1-base": 247_577_856,
    "bart-base": 139_420_416 + 50_265,  # released as a buffer of zeros, the head's bias is not counted elsewhere
    "bart-large": 406_291_456 + 50_265,
    "switch-base-8": 619_339_008,
    "mixtral-8x7b": 46_702_792_704,
    "deepseekmoe-16b": 16_375_728_128,
    "deepseek-v3": 671_026_419_200,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
}


def test_every_preset_has_its_count_here():
    assert COUNTS.keys() == presets.PUBLISHED.keys()


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.claim("C29", "E2", "E3")
def test_it_has_as_many_parameters_as_the_published_model(name: str):
    assert count_parameters(build(presets.named(name)).shapes()) == COUNTS[name]


@pytest.mark.parametrize(
    ("name", "head", "count"),
    [
        ("bert-base", NoHead(), 108_891_648),
        ("bert-base", PoolerHead(), 109_482_240),
        ("bert-large", NoHead(), 334_092_288),
        ("bert-large", PoolerHead(), 335_141_888),
        ("albert-base", PoolerHead(), 11_683_584),
        ("albert-large", PoolerHead(), 17_683_968),
        ("albert-xlarge", PoolerHead(), 58_724_864),
        ("albert-xxlarge", PoolerHead(), 222_595_584),
        ("electra-small", NoHead(), 13_483_008),
        ("electra-small", Masked(), 13_546_682),
        ("electra-base", NoHead(), 108_891_648),
        ("modernbert-base", NoHead(), 149_014_272),
        ("modernbert-large", NoHead(), 394_781_696),
        ("vit-base", NoHead(), 85_798_656),
    ],
    ids=str,
)
def test_an_encoder_with_another_head_has_as_many_as_the_published_one(name: str, head: Head, count: int):
    assert count_parameters(build(presets.named(name, head=head)).shapes()) == count


@pytest.mark.parametrize(
    ("change", "millions"),
    [
        ({"num_heads": 1, "attention.head_dim": 512}, 0),
        ({"num_heads": 4, "attention.head_dim": 128}, 0),
        ({"num_heads": 16, "attention.head_dim": 32}, 0),
        ({"num_heads": 32, "attention.head_dim": 16}, 0),
        ({"num_layers": 2}, 36 - 65),
        ({"num_layers": 4}, 50 - 65),
        ({"num_layers": 8}, 80 - 65),
        ({"hidden": 1024}, 53 - 65),
        ({"hidden": 4096}, 90 - 65),
    ],
    ids=str,
)
def test_the_original_transformer_varies_as_its_table_3_says(change: dict[str, Any], millions: int):
    """The table gives millions. Left out are rows that depend on the vocabulary, which it does not give, and those of
    d_k without d_v, which is one width of heads here.
    """
    sizes = {name: value for name, value in change.items() if "." not in name}
    model = with_values(
        presets.transformer(vocab_size=37_000, **sizes), {name: change[name] for name in change.keys() - sizes.keys()}
    )
    more = count_parameters(build(model).shapes()) - COUNTS["transformer-base"]
    assert more == pytest.approx(millions * 1e6, abs=0.6e6)


@pytest.mark.claim("E27")
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("mixtral-8x7b", 12_879_925_248),
        ("deepseekmoe-16b", 2_828_650_496),
        ("deepseek-v3", 37_552_297_472),
        ("gpt-oss-20b", 3_608_307_264 + 201_088 * 2880),  # the model card counts no embedding: 3.61 and 5.13 billion
        ("gpt-oss-120b", 5_132_849_472 + 201_088 * 2880),
        ("llama-7b", COUNTS["llama-7b"]),
    ],
)
def test_a_token_uses_as_many_parameters_as_the_published_model_says(name: str, count: int):
    model = presets.named(name)
    assert active_parameters(build(model), model) == count


def test_gpt_oss_has_as_many_bytes_as_its_file_of_weights():
    """Matrices of experts are published in MXFP4, 32 numbers of 4 bits and a scale of 8; all else in 16 bits."""
    model = presets.named("gpt-oss-20b")
    in_experts = 24 * 32 * 3 * 2880 * 2880
    others = count_parameters(build(model).shapes()) - in_experts
    assert 2 * others + in_experts // 32 * 17 == 13_761_264_768


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


@pytest.mark.parametrize("name", ["bert-base", "vit-base", "t5-small", "bart-base"])
def test_inspecting_an_encoder_or_a_pair_shows_its_costs(name: str):
    parameters, work, memory = report(Config(model=presets.named(name, num_layers=2)))
    assert parameters.row_count and work.row_count  # type: ignore[attr-defined]
    texts = [str(cell) for cell in memory.columns[0].cells]  # type: ignore[attr-defined]
    assert ("state of a text" in texts) == (name in ("t5-small", "bart-base"))
