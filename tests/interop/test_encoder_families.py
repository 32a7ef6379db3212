"""Encoders and pairs as Hugging Face lays them out: their heads by class, and their published sizes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from txjax.interop import fits, huggingface
from txjax.models import presets
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.linear import LinearHead
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.none import NoHead
from txjax.nn.heads.pooler import PoolerHead
from txjax.nn.heads.replaced import Replaced
from txjax.nn.heads.tied import Tied
from txjax.schema import ConfigError, with_values

FAMILIES = {name: name for name in ("bert", "roberta", "albert", "electra", "modernbert", "vit", "t5", "bart")}
FAMILIES |= {"switch": "switch_transformers"}
PUBLISHED = [name for name in presets.PUBLISHED if name.split("-")[0] in FAMILIES]
GOLDEN = Path(__file__).parents[1] / "golden" / "families"


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes_have_a_config_json_that_says_all(name: str):
    model = presets.named(name)
    family = huggingface.family_for(model)
    assert family.model_type == FAMILIES[name.split("-")[0]]
    assert family.unlike(model) == {}
    assert fits.unlike(family.model(family.config(model)), model, family.free) == {}


BERT = {"model_type": "bert", "hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}


@pytest.mark.parametrize(
    ("said", "head"),
    [
        ({}, PoolerHead()),
        ({"architectures": ["BertModel"]}, PoolerHead()),
        ({"architectures": ["BertForMaskedLM"], "hidden_act": "gelu_new"}, Masked(activation="gelu_tanh")),
        ({"architectures": ["BertForPreTraining"]}, Masked(next_sentence=True)),
        ({"architectures": ["BertForSequenceClassification"]}, Classes(2, pooler="tanh")),
        (
            {"architectures": ["BertForTokenClassification"], "id2label": dict.fromkeys("01234")},
            LinearHead(5, bias=True),
        ),
    ],
)
def test_the_class_says_the_head(said: dict[str, Any], head: object):
    family = huggingface.family_of("bert")
    model = family.model(BERT | said)
    assert model.head == head and model.width == 384
    assert family.config(model)["architectures"] == said.get("architectures", ["BertModel"])


@pytest.mark.bug("ml-explore/mlx-examples#591", "huggingface/transformers#5565", "T073")
@pytest.mark.parametrize(
    ("said", "head"),
    [
        ({}, Tied(scale="rsqrt_width")),
        ({"tie_word_embeddings": False}, LinearHead()),
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, LinearHead()),  # as transformers 5 writes it
    ],
)
def test_t5_divides_by_the_root_of_its_width_where_the_head_is_the_embedding(said: dict[str, Any], head: object):
    model = huggingface.family_of("t5").model({"model_type": "t5", "num_layers": 2, "num_decoder_layers": None} | said)
    assert model.head == head and model.encoder is not None and model.encoder.num_layers == model.num_layers == 2


@pytest.mark.parametrize(
    ("family", "said", "head"),
    [
        ("electra", {}, NoHead()),
        ("electra", {"architectures": ["ElectraForMaskedLM"], "hidden_act": "gelu_new"}, Masked()),  # its own, always
        ("electra", {"architectures": ["ElectraForPreTraining"], "hidden_act": "relu"}, Replaced("relu")),
        ("albert", {}, PoolerHead()),
        ("albert", {"architectures": ["AlbertForMaskedLM"]}, Masked("gelu_tanh")),
        ("albert", {"architectures": ["AlbertForPreTraining"], "hidden_act": "gelu"}, Masked(next_sentence=True)),
    ],
)
def test_whose_activation_a_head_has(family: str, said: dict[str, Any], head: object):
    model = huggingface.family_of(family).model({"model_type": family} | said)
    assert model.head == head
    assert huggingface.family_of(family).unlike(model) == {}


MODERNBERT = {  # as the published base model says it, in the form of transformers 4
    "architectures": ["ModernBertForMaskedLM"], "attention_bias": False, "attention_dropout": 0.0,
    "classifier_activation": "gelu", "classifier_bias": False, "classifier_pooling": "mean", "decoder_bias": True,
    "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "hidden_activation": "gelu", "hidden_size": 768,
    "intermediate_size": 1152, "local_attention": 128, "local_rope_theta": 10000.0, "max_position_embeddings": 8192,
    "mlp_bias": False, "model_type": "modernbert", "norm_bias": False, "norm_eps": 1e-05, "num_attention_heads": 12,
    "num_hidden_layers": 22, "pad_token_id": 50283, "position_embedding_type": "absolute", "vocab_size": 50368,
}  # fmt: skip


def test_a_published_config_is_the_preset():
    model = huggingface.family_of("modernbert").model(MODERNBERT)
    assert fits.unlike(model, presets.named("modernbert-base")) == {}
    windows = [getattr(model.mixer_of(layer), "window", None) for layer in model.layers]
    assert windows == [None if i % 3 == 0 else 65 for i in range(22)]


@pytest.mark.parametrize(
    "scaled",
    [
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
    ],
)
def test_scaled_angles_of_modernbert_are_refused(scaled: dict[str, Any]):
    with pytest.raises(ConfigError, match="only rope_type='default'"):
        huggingface.family_of("modernbert").model(MODERNBERT | scaled)


def test_widths_of_embeddings_and_layers_that_share():
    """Equal widths are a projection in ALBERT, and none in ELECTRA."""
    small, square = ({"embedding_size": size, "hidden_size": 64, "num_attention_heads": 4} for size in (16, 64))
    of = {name: huggingface.family_of(name).model for name in ("albert", "electra")}
    assert [of["albert"](c).embedding.own_width for c in (small, square)] == [16, 64]
    assert [of["electra"](c).embedding.own_width for c in (small, square)] == [16, None]
    assert of["albert"](small).sharing == "periods" and of["electra"](small).sharing == "none"


@pytest.mark.parametrize(
    ("family", "changes", "field"),
    [
        ("bert", {"sharing": "periods"}, "sharing='none' and not 'periods'"),
        ("bert", {"embedding.tokens.width": 128}, "embedding.tokens.width=None and not 128"),
        ("albert", {"sharing": "none"}, "sharing='periods' and not 'none'"),
        ("albert", {"embedding.tokens.width": None}, "embedding.tokens.width=768 and not None"),
        ("albert", {"pattern": [{}, {}]}, "pattern"),
        ("electra", {"embedding.tokens.width": 256}, "embedding.tokens.width=None and not 256"),
    ],
)
def test_what_a_family_cannot_share_or_project_is_refused(family: str, changes: dict[str, Any], field: str):
    base = {"bert": "bert-base", "albert": "albert-base", "electra": "electra-small"}[family]
    with pytest.raises(ConfigError, match=f"holds only models with .*{re.escape(field)}"):
        huggingface.family_of(family).config(with_values(presets.named(base), changes))


@pytest.mark.parametrize(
    ("family", "said", "complaint"),
    [
        ("bert", {"architectures": ["BertForQuestionAnswering"]}, "BertForQuestionAnswering is not known here"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key' cannot be held"),
        ("albert", {"num_hidden_groups": 2}, "num_hidden_groups=2 cannot be held, only 1"),
        ("albert", {"inner_group_num": 2}, "inner_group_num=2 cannot be held, only 1"),
        ("bart", {"encoder_ffn_dim": 8, "decoder_ffn_dim": 16}, "encoder_ffn_dim=8 cannot be held"),
        ("t5", {"num_layers": 2, "feed_forward_proj": "gated-relu"}, "feed_forward_proj='gated-relu' is not known"),
        ("marian", {"decoder_vocab_size": 9}, "decoder_vocab_size=9 cannot be held, only that of vocab_size"),
        ("marian", {"vocab_size": 9, "normalize_embedding": True}, "normalize_embedding=True cannot be held"),
        ("switch_transformers", {"router_bias": True}, "router_bias=True cannot be held, only False"),
        ("switch_transformers", {"dense_act_fn": "tanh"}, "dense_act_fn='tanh' is not known here: one of gelu"),
    ],
)
def test_what_no_model_of_ours_has_is_refused(family: str, said: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        huggingface.family_of(family).model({"model_type": family} | said)


def test_a_bare_model_of_encoders_reads_names_without_a_prefix(tmp_path: Path):
    import jax
    import numpy as np
    from safetensors.numpy import load_file, save_file

    golden = GOLDEN / "bert-classes"
    read = huggingface.read(golden)
    tensors = load_file(golden / "model.safetensors")
    bare = {name.removeprefix("bert."): x for name, x in tensors.items() if not name.startswith("classifier")}
    bare["embeddings.position_ids"] = np.arange(32)[None]  # of old files
    save_file(bare, tmp_path / "model.safetensors")
    text = (golden / "config.json").read_text().replace("BertForSequenceClassification", "BertModel")
    (tmp_path / "config.json").write_text(text)
    got = huggingface.read(tmp_path)
    assert got.model.head == PoolerHead()
    want = {name: leaf for name, leaf in read.params.items() if name != "head"}
    jax.tree.map(np.testing.assert_array_equal, got.params, want)


def test_a_published_bert_has_old_names_and_more_heads_than_its_class(tmp_path: Path):
    """bert-base-uncased says BertForMaskedLM, has gamma and beta, and the next sentence's tensors too."""
    import jax
    import numpy as np
    from safetensors.numpy import load_file, save_file

    golden = GOLDEN / "bert"
    read = huggingface.read(golden)
    assert read.model.head == Masked(next_sentence=True) and not read.passed
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = load_file(golden / "model.safetensors")
    for today, then in old.items():
        tensors = {name.replace(today, then): x for name, x in tensors.items()}
    save_file(tensors, tmp_path / "model.safetensors")
    text = (golden / "config.json").read_text().replace("BertForPreTraining", "BertForMaskedLM")
    (tmp_path / "config.json").write_text(text)
    got = huggingface.read(tmp_path)
    assert got.model.head == Masked()
    others = ("bert.pooler.dense", "cls.seq_relationship")
    assert sorted(got.passed) == [f"{name}.{leaf}" for name in others for leaf in ("bias", "weight")]
    want = {name: leaf for name, leaf in read.params.items() if name != "next_sentence"}
    jax.tree.map(np.testing.assert_array_equal, got.params, want)


def test_a_published_bart_is_the_bare_model_without_a_bias_of_the_logits(tmp_path: Path):
    import jax
    import numpy as np
    from safetensors.numpy import load_file, save_file

    golden = GOLDEN / "bart"
    want = dict(huggingface.read(golden).params)
    assert np.asarray(want["head"]["b"]).any()
    tensors = {name.removeprefix("model."): x for name, x in load_file(golden / "model.safetensors").items()}
    del tensors["final_logits_bias"]
    tensors["encoder.embed_tokens.weight"] = tensors["shared.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((golden / "config.json").read_text())
    got = huggingface.read(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, got.params, want | {"head": {"b": np.zeros_like(want["head"]["b"])}})


OPUS = {  # what OPUS-MT's files say of a model, in the form of transformers 4
    "model_type": "marian", "vocab_size": 58101, "d_model": 512, "encoder_layers": 6, "decoder_layers": 6,
    "encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048,
    "activation_function": "swish", "max_position_embeddings": 512, "scale_embedding": True,
    "static_position_embeddings": True, "normalize_before": False, "normalize_embedding": False,
    "add_final_layer_norm": False, "pad_token_id": 58100, "decoder_start_token_id": 58100, "eos_token_id": 0,
}  # fmt: skip


def test_an_opus_translator_is_the_original_transformer_with_biases_and_silu():
    family = huggingface.family_of("marian")
    model = family.model(OPUS)
    differing = fits.unlike(presets.transformer(vocab_size=58101), model)
    paths = {"attention.qkv_bias", "attention.output_bias", "feedforward.dense.activation", "head.tied.bias"}
    assert differing.keys() == paths | {"position.sinusoidal.pairs"}
    assert {name: value for name, value in OPUS.items() if name != "eos_token_id"}.items() <= family.config(
        model
    ).items()


def test_the_positions_that_old_files_of_marian_hold_are_not_of_the_model(tmp_path: Path):
    import numpy as np
    from safetensors.numpy import load_file, save_file

    tensors = load_file(GOLDEN / "marian" / "model.safetensors")
    for side in ("encoder", "decoder"):
        tensors[f"model.{side}.embed_positions.weight"] = np.zeros((32, 16), np.float32)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((GOLDEN / "marian" / "config.json").read_text())
    assert huggingface.read(tmp_path).model == huggingface.read(GOLDEN / "marian").model


def test_a_head_of_its_own_beside_two_embeddings_is_refused(tmp_path: Path):
    from safetensors.numpy import load_file, save_file

    tensors = load_file(GOLDEN / "marian-own" / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.encoder.embed_tokens.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((GOLDEN / "marian-own" / "config.json").read_text())
    with pytest.raises(ConfigError, match=r"lm_head.weight is not model.decoder.embed_tokens.weight, though"):
        huggingface.read(tmp_path)


@pytest.mark.parametrize(
    ("said", "sparse"),
    [
        ({}, "010001000100"),  # three of twelve
        ({"num_sparse_decoder_layers": 6}, "010101010101"),
        ({"num_sparse_decoder_layers": 12}, "111111111111"),
        ({"num_sparse_decoder_layers": 0}, "010000000000"),  # a step of all layers, which is one
        ({"num_sparse_decoder_layers": 6, "decoder_sparse_step": 5}, "010000100001"),
        ({"num_decoder_layers": 5, "decoder_sparse_step": 2}, "01010"),
        ({"num_decoder_layers": None, "num_layers": 4, "decoder_sparse_step": 1}, "1111"),
    ],
)
def test_the_step_says_which_layers_of_switch_have_a_mixture(said: dict[str, Any], sparse: str):
    family = huggingface.family_of("switch_transformers")
    model = family.model({"model_type": "switch_transformers"} | said)
    kinds = [model.feedforward_of(layer).kind for layer in model.layers]
    assert kinds == ["mixture" if one == "1" else "dense" for one in sparse]
    written = family.config(model)
    assert fits.unlike(family.model(written), model, family.free) == {}
    assert written["expert_capacity"] == model.context  # a row of so many tokens loses none


def test_t5_is_no_switch_without_mixtures():
    with pytest.raises(ConfigError, match=r"switch_transformers as Hugging Face lays it out holds only"):
        huggingface.family_of("switch_transformers").config(presets.t5(vocab_size=9))
