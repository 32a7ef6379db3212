"""The same Llama in transformers, with its generate(). Forms: dynamic, static (its two caches)."""

from __future__ import annotations

import numpy as np
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.peers import decoding as d


def model() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=d.VOCAB,
        hidden_size=d.WIDTH,
        intermediate_size=d.HIDDEN,
        num_hidden_layers=d.LAYERS,
        num_attention_heads=d.HEADS,
        max_position_embeddings=d.CONTEXT,
        rms_norm_eps=d.NORM_EPS,
        rope_theta=d.THETA,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    llama = LlamaForCausalLM(config).eval()
    w = {name.removeprefix("layers/block_0/"): leaf for name, leaf in d.weights().items()}
    state = {"model.embed_tokens.weight": w["embedding/w"], "lm_head.weight": w["head/w"].T}
    state["model.norm.weight"] = w["final_norm/gain"]
    for i in range(d.LAYERS):
        layer = f"model.layers.{i}"
        state[f"{layer}.input_layernorm.weight"] = w["mixer_norm/gain"][i]
        state[f"{layer}.post_attention_layernorm.weight"] = w["feedforward_norm/gain"][i]
        for theirs, ours in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value")):
            state[f"{layer}.self_attn.{theirs}.weight"] = w[f"attention/{ours}/w"][i].reshape(d.WIDTH, -1).T
        state[f"{layer}.self_attn.o_proj.weight"] = w["attention/out/w"][i].reshape(-1, d.WIDTH).T
        for theirs, ours in (("gate_proj", "gate"), ("up_proj", "in"), ("down_proj", "out")):
            state[f"{layer}.mlp.{theirs}.weight"] = w[f"dense/{ours}/w"][i].T
    llama.load_state_dict({name: torch.tensor(np.ascontiguousarray(leaf)) for name, leaf in state.items()})
    return llama


def main() -> None:
    task = d.task()
    llama = model()
    how = {"do_sample": False} | ({"cache_implementation": "static"} if task.form == "static" else {})

    @torch.inference_mode()
    def tokens(prompts: np.ndarray, count: int) -> np.ndarray:
        ids = torch.tensor(prompts)
        out = llama.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, **how)
        return out[:, ids.shape[1] :].numpy()

    d.run(tokens, task, f"transformers {transformers.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
