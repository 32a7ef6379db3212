"""Every family against transformers: tiny random models, in and out. `make test-oracle` writes docs/parity.* by it."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs the extra oracle: make test-oracle")

import oracle_ours as ours
import oracle_theirs as theirs
from oracle_cases import CASES

from txjax import decode
from txjax.interop import huggingface

pytestmark = pytest.mark.oracle
DOCS = Path(__file__).parents[2] / "docs"
CLOSE = 1e-4


@pytest.fixture(scope="module")
def rows() -> Iterator[dict[str, Any]]:
    """What each case that was tried came to, None where it failed; the docs follow and keep what they say of others."""
    rows: dict[str, Any] = {}
    yield rows
    versions = {name: importlib.metadata.version(name) for name in ("transformers", "torch", "jax")}
    versions["python"] = platform.python_version()
    path = DOCS / "parity.json"
    before = json.loads(path.read_text()) if path.is_file() else {}
    kept = before["cases"] if before.get("versions") == versions else {}
    cases = {name: row for name in CASES if (row := (kept | rows).get(name)) is not None}
    data = {"versions": versions, "within": CLOSE, "cases": cases}
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    (DOCS / "parity.md").write_text(page(data), encoding="utf-8")


@pytest.mark.bug(
    "nntile/nntile#370", "AutoGPTQ/AutoGPTQ#139", "huggingface/transformers#311", "huggingface/transformers#9054"
)
@pytest.mark.parametrize("name", CASES)
def test_ours_compute_what_theirs_do_and_theirs_read_what_we_write(name: str, tmp_path: Path, rows: dict[str, Any]):
    case, folder, back = CASES[name], tmp_path / "theirs", tmp_path / "back"
    rows[name] = None
    theirs.make(case, folder)
    expected = theirs.outputs(case, folder)
    found = ours.parity(folder, expected)
    back.mkdir()
    read = huggingface.read(folder)
    huggingface.write(back, read.model, read.params, family=huggingface.family_of(case.model_type))
    again = theirs.logits(case, back, expected.get("tokens"))
    returned = ours.far(again, expected["logits"])
    assert max(found.logits, found.hidden, found.gradient) < CLOSE and found.tokens, found
    assert returned == 0.0
    if case.auto == "AutoModelForCausalLM":
        model, params, _ = ours.load(folder)
        prompts = expected["tokens"][:, : ours.PROMPT].tolist()
        written = decode.generate(
            model, params, prompts, tokens=theirs.NEW, sampling=decode.Sampling(0.0), seeds=[0, 1], context=None
        )
        np.testing.assert_array_equal(written, expected["generated"])
    tokens = found.tokens if "generated" in expected else None
    rows[name] = {
        "family": case.model_type, **found._asdict(), "tokens": tokens, "logits_of_what_we_wrote": returned,
    }  # fmt: skip


def page(data: dict[str, Any]) -> str:
    """docs/parity.md"""
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    lines = [
        "# Parity with transformers",
        "",
        "Written by `make test-oracle`: tiny random models of each family, made and run by transformers, and read from",
        f"the files that it saves. {versions}; float32 on a CPU.",
        "",
        "Largest absolute differences: of logits, of the hidden states after any layer, of the loss's gradient for any",
        "parameter. Tokens: what both write greedily with their caches, none where a model writes no text. Back: the",
        "logits of transformers for the weights that txjax wrote, against those that it read. All differences are",
        f"within {data['within']:g}, or the command fails.",
        "",
        "| case | model_type | logits | hidden | gradient | tokens | back |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in data["cases"].items():
        numbers = " | ".join(f"{row[key]:.1e}" for key in ("logits", "hidden", "gradient"))
        tokens = "none" if row["tokens"] is None else "equal"
        lines.append(f"| {name} | {row['family']} | {numbers} | {tokens} | equal |")
    return "\n".join(lines) + "\n"


def test_every_field_of_their_configs_is_accounted_for():
    """A field of a config class that is neither read nor known to be without effect would be dropped in silence."""
    unknown = {}
    for case in CASES.values():
        family = huggingface.family_of(case.model_type)
        read = Watched(theirs.config(case))
        family.model(read)
        left = set(read) - read.asked - FREE - theirs.of_every_config() - FREE_OF.get(case.model_type, set())
        if left:
            unknown[case.model_type] = sorted(left)
    if unknown:
        pytest.fail(f"neither read nor known to be free: {unknown}")


class Watched(dict):
    """A config that remembers what was asked of it."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)


# Of training, of the text's ends, of other heads than these, or of how transformers works; and sizes that follow.
FREE = {
    "architectures", "dtype", "transformers_version", "use_cache", "bos_token_id", "eos_token_id", "pad_token_id",
    "initializer_range", "init_std", "attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "hidden_dropout",
    "dropout", "layerdrop", "encoder_layerdrop", "decoder_layerdrop", "activation_dropout", "dropout_rate",
    "attention_probs_dropout_prob", "hidden_dropout_prob", "initializer_factor", "decoder_start_token_id",
    "forced_eos_token_id", "classifier_dropout", "pretraining_tp", "output_router_logits", "router_aux_loss_coef",
    "router_jitter_noise", "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj", "summary_last_dropout", "reorder_and_upcast_attn", "slow_but_exact", "is_decoder",
    "use_bidirectional_attention", "classifier_dropout_prob", "router_z_loss_coef", "qk_head_dim", "num_mtp_layers",
    "num_nextn_predict_layers", "original_max_position_embeddings",
}  # fmt: skip
FREE_OF = {  # sizes that follow from others, or of layers that a family cannot have
    "qwen2": {"max_window_layers"}, "qwen3": {"max_window_layers"}, "qwen3_moe": {"intermediate_size"},
    "deepseek_v3": {"head_dim"}, "t5": {"dense_act_fn", "is_gated_act"},
    "vit": {"encoder_stride", "pooler_act", "pooler_output_size"},
    "switch_transformers": {  # the capacity: see the family
        "expert_capacity", "router_ignore_padding_tokens", "add_router_probs", "add_cross_attention",
    },
    "modernbert": {
        "initializer_cutoff_factor", "embedding_dropout", "mlp_dropout", "classifier_pooling",
        "deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index", "cls_token_id", "sep_token_id",
    },
}  # fmt: skip
