"""Families of Hugging Face's against what transformers computed (tests/golden/make_families.py), without it here."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import oracle_ours as ours
import pytest
from oracle_cases import digest
from safetensors.numpy import load_file

from txjax.interop import fits, huggingface
from txjax.models import presets
from txjax.nn.parameters import path_name
from txjax.ops.positions import Rope, YarnScaling
from txjax.schema import ConfigError

GOLDEN = Path(__file__).parents[1] / "golden" / "families"
CAUSAL = sorted(path.parent.name for path in GOLDEN.glob("*/expected.safetensors"))
NAMES = sorted(path.name for path in GOLDEN.iterdir())


@pytest.mark.bug("nntile/nntile#370", "AutoGPTQ/AutoGPTQ#139", "huggingface/transformers#311")  # GPT-2's kernels
@pytest.mark.bug("huggingface/transformers#9054")  # two forms of GELU
@pytest.mark.bug("ekzhang/jax-js#180", "vllm-project/vllm-metal#44")  # shared key heads; pairs of the rotation
@pytest.mark.bug("vllm-project/vllm#41236", "huggingface/transformers#39408")  # rotary scaling; windows
@pytest.mark.parametrize("name", CAUSAL)
def test_they_compute_what_transformers_does(name: str):
    """Logits, hidden states and tokens; of some the gradients. GPT-2's kernels are square in this test."""
    found = ours.parity(GOLDEN / name, load_file(GOLDEN / name / "expected.safetensors"), digest)
    assert max(found.logits, found.hidden, found.gradient) < 1e-4 and found.tokens, found


@pytest.mark.parametrize("name", NAMES)
def test_out_and_in_again_is_the_same(name: str, tmp_path: Path):
    """Bit for bit: every parameter of ours, every tensor of theirs, and the model that config.json describes."""
    read = huggingface.read(GOLDEN / name)
    theirs = huggingface.files.stored(GOLDEN / name)
    family = huggingface.family_of(huggingface.files.read_json(GOLDEN / name / "config.json")["model_type"])
    huggingface.write(tmp_path, read.model, read.params, family=family)
    again = huggingface.read(tmp_path)
    assert fits.unlike(again.model, read.model) == {}
    jax.tree.map(np.testing.assert_array_equal, again.params, read.params)
    written = load_file(tmp_path / "model.safetensors")
    assert written.keys() <= theirs.keys()
    for key, tensor in written.items():
        if "norm" not in key:  # a gain that is kept as its distance from 1 may be another number for the same gain
            np.testing.assert_array_equal(tensor, np.asarray(theirs[key]).astype(np.float32), err_msg=key)


FAMILY_OF = {  # presets, by how their names begin
    "gpt2": "gpt2", "gpt3": "gpt2", "llama": "llama", "mixtral": "mixtral", "deepseek-v3": "deepseek_v3",
    "olmo2": "olmo2", "gpt-oss": "gpt_oss",
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in presets.PUBLISHED if name.startswith(tuple(FAMILY_OF))])
def test_published_sizes_have_a_config_json_that_says_all(name: str):
    model = presets.named(name)
    family = huggingface.family_for(model)
    assert family.model_type == next(kind for start, kind in FAMILY_OF.items() if name.startswith(start))
    assert family.unlike(model) == {}
    assert fits.unlike(family.model(family.config(model)), model) == {}


LLAMA_3_1_8B = {  # the file that lies beside Meta's weights
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 128000,
    "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": False, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
    "rms_norm_eps": 1e-05, "rope_scaling": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    }, "rope_theta": 500000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True,
    "vocab_size": 128256,
}  # fmt: skip


DEEPSEEK_V3 = {  # that beside DeepSeek's, in the form of transformers 4
    "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": False, "first_k_dense_replace": 3,
    "hidden_act": "silu", "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
    "max_position_embeddings": 163840, "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1,
    "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 128,
    "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_scaling": {
        "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096, "type": "yarn",
    }, "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": False,
    "topk_group": 4, "topk_method": "noaux_tc", "v_head_dim": 128, "vocab_size": 129280,
}  # fmt: skip


GPT_OSS_20B = {  # that beside OpenAI's, less its quantization_config
    "architectures": ["GptOssForCausalLM"], "attention_bias": True, "attention_dropout": 0.0, "eos_token_id": 200002,
    "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880, "initial_context_length": 4096,
    "initializer_range": 0.02, "intermediate_size": 2880, "layer_types": ["sliding_attention", "full_attention"] * 12,
    "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": 64, "num_experts_per_tok": 4,
    "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32, "output_router_logits": False,
    "pad_token_id": 199999, "rms_norm_eps": 1e-05, "rope_scaling": {
        "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
        "rope_type": "yarn", "truncate": False,
    }, "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
    "tie_word_embeddings": False, "use_cache": True, "vocab_size": 201088,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "preset"),
    [(LLAMA_3_1_8B, "llama3.1-8b"), (DEEPSEEK_V3, "deepseek-v3"), (GPT_OSS_20B, "gpt-oss-20b")],
    ids=["llama", "deepseek", "gpt-oss"],
)
def test_a_published_config_is_the_preset(config: dict, preset: str):
    model = huggingface.family_of(config["model_type"]).model(config)
    assert fits.unlike(model, presets.named(preset)) == {}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"hidden_act": "relu6"}, "config.json: hidden_act='relu6' is not known here: one of silu"),
        (
            {"rope_scaling": {"rope_type": "dynamic"}},
            "config.json: rope_type='dynamic' is not known here: one of default",
        ),
        ({"rope_scaling": {"rope_type": "llama3", "speed": 3}}, "rope_type=llama3.speed is not a field"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.0}}, "attention_factor is not a"),
        (
            {"num_attention_heads": 5},
            "config.json gives no model: model.* num_key_value_heads=8|num_kv_heads must divide",
        ),
        ({"hidden_size": "wide"}, "config.json gives no model: model.width must be int, got 'wide'"),
    ],
)
def test_what_a_config_says_and_we_have_not_is_refused(changes: dict, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        huggingface.family_of("llama").model(LLAMA_3_1_8B | changes)


def test_what_a_config_leaves_out_is_what_transformers_takes():
    """gpt-oss without a scaling is stretched; a scaling without the context it starts from has the model's."""
    family = huggingface.family_of("gpt_oss")
    left = {"rope_scaling", "rope_theta", "layer_types", "sliding_window", "num_key_value_heads", "head_dim"}
    left |= {"rms_norm_eps", "num_experts_per_tok", "attention_bias", "swiglu_limit", "hidden_act"}
    bare = {key: value for key, value in GPT_OSS_20B.items() if key not in left}
    assert family.model(bare) == family.model(GPT_OSS_20B)
    plain = family.model(bare | {"rope_parameters": {"rope_type": "default", "rope_theta": 150000}})
    assert plain.position == Rope(theta=150_000.0)
    assert fits.unlike(family.model(family.config(plain)), plain) == {}
    short = LLAMA_3_1_8B | {"max_position_embeddings": 512, "rope_scaling": {"rope_type": "yarn", "factor": 2.0}}
    position = huggingface.family_of("llama").model(short).position
    assert position == Rope(theta=500_000.0, scaling=YarnScaling(factor=2.0, original_context=512))


@pytest.mark.parametrize("field", ["swiglu_limit", "swiglu_alpha"])
def test_another_clamp_than_that_of_gpt_oss_is_refused(field: str):
    with pytest.raises(ConfigError, match=f"{field}=10.0 cannot be held, only"):
        huggingface.family_of("gpt_oss").model(GPT_OSS_20B | {field: 10.0})


def test_a_config_without_a_size_is_refused():
    config = {key: value for key, value in LLAMA_3_1_8B.items() if key != "hidden_size"} | {"hidden_sizes": 3}
    with pytest.raises(ConfigError, match=r"config.json has no hidden_size, did you mean 'hidden_sizes'"):
        huggingface.family_of("llama").model(config)


@pytest.mark.parametrize(
    ("family", "changes", "field"),
    [
        ("llama", {"norm_placement": "post"}, "norm_placement='pre' and not 'post'"),
        ("llama", {"mixer": "gru"}, "mixer.kind='attention' and not 'gru'"),
        ("gpt2", {"position": "rope"}, "position.kind='learned' and not 'rope'"),
        ("mixtral", {"logit_softcap": 3.0}, "logit_softcap=None and not 3.0"),
        ("deepseek_v3", {"causal": False}, "causal=True and not False"),
        ("olmo2", {"attention.qk_norm": "head"}, "attention.qk_norm='all' and not 'head'"),
        ("gpt_oss", {"attention.sinks": False}, "attention.sinks=True and not False"),
    ],
)
def test_a_model_that_a_family_cannot_hold_is_refused(family: str, changes: dict, field: str, tmp_path: Path):
    from txjax.schema import with_values

    name = {"llama": "llama3", "gpt2": "gpt2-square"}.get(family, family)
    read = huggingface.read(GOLDEN / name)
    with pytest.raises(
        ConfigError, match=f"{family} as Hugging Face lays it out holds only models with .*model.{field}"
    ):
        huggingface.write(tmp_path, with_values(read.model, changes), None, family=huggingface.family_of(family))
    assert not list(tmp_path.iterdir())


def test_a_model_of_no_family_names_the_nearest():
    odd = presets.gpt2(8, 2, 2, context=4, vocab_size=9, norm_placement="output")
    with pytest.raises(ConfigError, match=r"the nearest, gpt2, holds only models with model.norm_placement='pre'"):
        huggingface.family_for(odd)


def test_a_tied_head_has_one_leaf():
    read = huggingface.read(GOLDEN / "llama-tied")
    names = {path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(read.params)}
    assert "embedding/w" in names and not any(name.startswith("head") for name in names)
