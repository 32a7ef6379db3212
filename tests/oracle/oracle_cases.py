"""Tiny models of each family: the fields of a config of transformers. Heads have a width of their own, so that no two
sizes agree by chance; windows are shorter than the texts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

ENDS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}


class Case(NamedTuple):
    """model_type and fields of a config. auto: which of transformers' classes makes the model. louder: factors on the
    random weights of some names, powers of two.
    """

    model_type: str
    fields: dict[str, Any]
    auto: str = "AutoModelForCausalLM"
    louder: tuple[tuple[str, float], ...] = ()


SIZES = {"vocab_size": 41, "hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 20} | ENDS
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64}
LLAMA = SIZES | HEADS
# fmt: off
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 1000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
WINDOWS = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}
GPT2 = {"vocab_size": 41, "n_embd": 16, "n_layer": 3, "n_head": 4, "n_positions": 64} | ENDS

MIXTURE = {"num_hidden_layers": 2, "moe_intermediate_size": 12, "num_experts_per_tok": 2}
DEEPSEEK = SIZES | MIXTURE | {
    "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 10, "kv_lora_rank": 14, "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4, "v_head_dim": 5, "n_routed_experts": 8, "n_group": 4, "topk_group": 2, "n_shared_experts": 2,
    "first_k_dense_replace": 1, "max_position_embeddings": 64,
}
YARN = {
    "rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0,
    "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
}
GPT_OSS = LLAMA | {
    "head_dim": 12, "sliding_window": 5, "num_local_experts": 3, "num_experts_per_tok": 2,
    "max_position_embeddings": 256, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 64,
        "beta_fast": 4.0, "beta_slow": 1.0, "truncate": False,
    },
}
CLAMPED = (("gate_up_proj", 8.0), ("down_proj", 1 / 16))  # so that gates and inputs pass their limits

BERT = {
    "vocab_size": 41, "hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 20, "num_attention_heads": 4,
    "max_position_embeddings": 32, "type_vocab_size": 2,
}
ELECTRA = BERT | {"embedding_size": 10}
ALBERT = BERT | {"embedding_size": 10, "hidden_act": "gelu_new"}
MODERNBERT = {
    "vocab_size": 41, "hidden_size": 16, "num_hidden_layers": 4, "intermediate_size": 20, "num_attention_heads": 4,
    "max_position_embeddings": 32, "local_attention": 4, "cls_token_id": None, "sep_token_id": None,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    },
} | dict.fromkeys(ENDS)
BIASES = {"attention_bias": True, "mlp_bias": True, "norm_bias": True}
VIT = {
    "hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 20, "num_attention_heads": 4, "image_size": 12,
    "patch_size": 4, "num_channels": 3, "num_labels": 5,
}
# the encoder is the deeper: transformers 5.24 makes a cache of as many layers as it has
T5 = {
    "vocab_size": 41, "d_model": 16, "d_kv": 6, "d_ff": 20, "num_heads": 4, "num_layers": 3, "num_decoder_layers": 2,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12,
}
BART = {
    "vocab_size": 41, "d_model": 16, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 32,
}
MARIAN = BART | {"pad_token_id": 1, "decoder_start_token_id": 1, "scale_embedding": True}
SWITCH = {  # the capacity is the length of the longest row
    "vocab_size": 41, "d_model": 16, "d_kv": 6, "d_ff": 20, "num_heads": 4, "num_layers": 4, "num_decoder_layers": 3,
    "num_sparse_encoder_layers": 2, "num_sparse_decoder_layers": 1, "num_experts": 3, "expert_capacity": 9,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12,
}

CASES = {
    "gpt2": Case("gpt2", GPT2 | {"n_inner": 20}),
    "gpt2-square": Case("gpt2", GPT2 | {"n_inner": 16, "tie_word_embeddings": False}),
    "llama": Case("llama", LLAMA),
    "llama-tied": Case("llama", LLAMA | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}),
    "llama3": Case("llama", LLAMA | {"rope_parameters": LLAMA3}),
    "qwen2": Case("qwen2", {k: v for k, v in LLAMA.items() if k != "head_dim"} | {"tie_word_embeddings": True}),
    "qwen2-windows": Case("qwen2", {k: v for k, v in LLAMA.items() if k != "head_dim"} | WINDOWS),
    "mistral": Case("mistral", LLAMA | {"sliding_window": 5}),
    "qwen3": Case("qwen3", LLAMA),
    "gemma2": Case("gemma2", LLAMA | {"num_hidden_layers": 4, "sliding_window": 5, "query_pre_attn_scalar": 10}),
    "gpt_neox": Case("gpt_neox", SIZES | {"num_attention_heads": 2, "rotary_pct": 0.5, "rotary_emb_base": 1000}),
    "gpt_neox-sequential": Case("gpt_neox", SIZES | {"num_attention_heads": 2, "use_parallel_residual": False}),
    "opt": Case("opt", {
        "vocab_size": 41, "hidden_size": 16, "num_hidden_layers": 3, "ffn_dim": 20, "num_attention_heads": 4,
        "max_position_embeddings": 64, "word_embed_proj_dim": 16,
    } | ENDS),
    "bloom": Case("bloom", {"vocab_size": 41, "hidden_size": 16, "n_layer": 3, "n_head": 4} | ENDS),
    "phi3": Case("phi3", {k: v for k, v in LLAMA.items() if k != "head_dim"}),
    "mixtral": Case("mixtral", LLAMA | {"num_local_experts": 4, "num_hidden_layers": 2}),
    "qwen3_moe": Case("qwen3_moe", LLAMA | MIXTURE | {"num_experts": 4}),
    "deepseek_v3": Case("deepseek_v3", DEEPSEEK),
    "deepseek_v3-yarn": Case("deepseek_v3", DEEPSEEK | {
        "q_lora_rank": None, "first_k_dense_replace": 0, "rope_interleave": False, "rope_parameters": YARN,
    }),
    "olmo2": Case("olmo2", LLAMA),
    "olmo2-tied": Case("olmo2", LLAMA | {"tie_word_embeddings": True, "attention_bias": True}),
    "gpt_oss": Case("gpt_oss", GPT_OSS, louder=CLAMPED),
    "gpt_oss-plain": Case("gpt_oss", GPT_OSS | {
        "attention_bias": False, "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
    }, louder=CLAMPED),
    "bert": Case("bert", BERT, "AutoModelForPreTraining"),
    "bert-masked": Case("bert", BERT | {"hidden_act": "gelu_new"}, "AutoModelForMaskedLM"),
    "bert-classes": Case("bert", BERT | {"num_labels": 3}, "AutoModelForSequenceClassification"),
    "bert-tags": Case("bert", BERT | {"num_labels": 5}, "AutoModelForTokenClassification"),
    "roberta": Case("roberta", BERT | {"type_vocab_size": 1}, "AutoModelForMaskedLM"),
    "electra": Case("electra", ELECTRA | {"hidden_act": "relu"}, "AutoModelForPreTraining"),
    "electra-generator": Case("electra", ELECTRA | {"hidden_act": "gelu_new"}, "AutoModelForMaskedLM"),
    "electra-tags": Case("electra", ELECTRA | {"num_labels": 5}, "AutoModelForTokenClassification"),
    "electra-square": Case("electra", ELECTRA | {"embedding_size": 16}, "AutoModel"),
    "albert": Case("albert", ALBERT, "AutoModelForMaskedLM"),
    "albert-pretraining": Case("albert", ALBERT | {"hidden_act": "gelu"}, "AutoModelForPreTraining"),
    "albert-classes": Case("albert", ALBERT | {"num_labels": 3}, "AutoModelForSequenceClassification"),
    "albert-tags": Case("albert", ALBERT | {"num_labels": 5}, "AutoModelForTokenClassification"),
    "albert-square": Case("albert", ALBERT | {"embedding_size": 16}, "AutoModel"),
    "modernbert": Case("modernbert", MODERNBERT, "AutoModelForMaskedLM"),
    "modernbert-biases": Case("modernbert", MODERNBERT | BIASES | {
        "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"],
    }, "AutoModel"),
    "vit": Case("vit", VIT, "AutoModelForImageClassification"),
    "t5": Case("t5", T5, "AutoModelForSeq2SeqLM"),
    "t5-v1.1": Case("t5", T5 | {
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
    }, "AutoModelForSeq2SeqLM"),
    "bart": Case("bart", BART, "AutoModelForSeq2SeqLM"),
    "bart-scaled": Case("bart", BART | {"scale_embedding": True}, "AutoModelForSeq2SeqLM"),
    "marian": Case("marian", MARIAN | {"activation_function": "swish"}, "AutoModelForSeq2SeqLM"),
    "marian-own": Case("marian", MARIAN | {
        "activation_function": "relu", "share_encoder_decoder_embeddings": False,
    }, "AutoModelForSeq2SeqLM"),
    "switch": Case("switch_transformers", SWITCH, "AutoModelForSeq2SeqLM"),
    "switch-all": Case("switch_transformers", SWITCH | {
        "num_sparse_encoder_layers": 4, "num_sparse_decoder_layers": 3, "dense_act_fn": "gelu_new",
    }, "AutoModelForSeq2SeqLM"),
}
# fmt: on


def digest(x: np.ndarray) -> np.ndarray:
    """Four numbers of a tensor that change with any entry and with their order, of the size of an entry: its sum, two
    sums with unlike weights over the square root of the count, and its norm over it.
    """
    flat = np.asarray(x, np.float64).ravel()
    at = np.arange(flat.size)
    sums = [flat.sum(), flat @ np.cos(at), flat @ np.cos(0.7 * at**1.5), np.sqrt(flat @ flat)]
    return np.array(sums) / np.sqrt(flat.size)
