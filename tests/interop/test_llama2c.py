"""llama2.c's file, written here in the order in which its run.c maps it, and run here in its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.batch import Batch
from txjax.config import Attention, Dense, LayerNorm, Learned, Rope, SelfAttention
from txjax.interop import llama2c
from txjax.models import build
from txjax.schema import ConfigError
from txjax.store.files import StoreError

D, F, L, N, K, V, S = 16, 20, 3, 4, 2, 11, 7
H = D // N


@dataclass
class File:
    """What the test wrote: the weights as run.c indexes them, and the bytes."""

    weights: dict[str, np.ndarray]
    content: bytes


def file_of(tied: bool) -> File:
    random = np.random.default_rng(0)
    shapes = {
        "token_embedding": (V, D), "rms_att": (L, D), "wq": (L, N * H, D), "wk": (L, K * H, D), "wv": (L, K * H, D),
        "wo": (L, D, N * H), "rms_ffn": (L, D), "w1": (L, F, D), "w2": (L, D, F), "w3": (L, F, D), "rms_final": (D,),
        "freq_cis_real": (S, H // 2), "freq_cis_imag": (S, H // 2),
    }  # fmt: skip
    if not tied:
        shapes["wcls"] = (V, D)
    weights = {name: random.standard_normal(shape).astype("<f4") for name, shape in shapes.items()}
    header = np.array([D, F, L, N, K, V if tied else -V, S], "<i4")
    return File(weights, header.tobytes() + b"".join(w.tobytes() for w in weights.values()))


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def file(request: pytest.FixtureRequest) -> File:
    return file_of(request.param)


@pytest.fixture
def path(file: File, tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(file.content)
    return path


def forward(w: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    """Logits after each token, (T, V), one token and one head at a time in float64, as run.c's forward computes."""

    def rmsnorm(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
        return gain * (x / np.sqrt((x * x).mean() + 1e-5))

    def turned(x: np.ndarray, position: int) -> np.ndarray:
        y = x.copy()
        for i in range(0, len(x), 2):
            angle = position / 10000.0 ** ((i % H) / H)
            y[i] = x[i] * np.cos(angle) - x[i + 1] * np.sin(angle)
            y[i + 1] = x[i] * np.sin(angle) + x[i + 1] * np.cos(angle)
        return y

    keys: list[list[np.ndarray]] = [[] for _ in range(L)]
    values: list[list[np.ndarray]] = [[] for _ in range(L)]
    logits = []
    for position, token in enumerate(tokens):
        x = w["token_embedding"][token].astype(np.float64)
        for layer in range(L):
            h = rmsnorm(x, w["rms_att"][layer])
            q = turned(w["wq"][layer] @ h, position)
            keys[layer].append(turned(w["wk"][layer] @ h, position))
            values[layer].append(w["wv"][layer] @ h)
            mixed = np.zeros(D)
            for head in range(N):
                own = slice(head * H, (head + 1) * H)
                shared = slice(head // (N // K) * H, (head // (N // K) + 1) * H)
                scores = np.array([q[own] @ k[shared] / np.sqrt(H) for k in keys[layer]])
                weights = np.exp(scores - scores.max())
                mixed[own] = sum(a * v[shared] for a, v in zip(weights / weights.sum(), values[layer], strict=True))
            x = x + w["wo"][layer] @ mixed
            h = rmsnorm(x, w["rms_ffn"][layer])
            gate = w["w1"][layer] @ h
            x = x + w["w2"][layer] @ (gate / (1 + np.exp(-gate)) * (w["w3"][layer] @ h))
        logits.append(w.get("wcls", w["token_embedding"]) @ rmsnorm(x, w["rms_final"]))
    return np.array(logits)


@pytest.mark.bug("ekzhang/jax-js#180", "vllm-project/vllm-metal#44")
def test_the_logits_are_those_of_run_c(file: File, path: Path):
    read = llama2c.read(path)
    tokens = [1, 5, 3, 3, 10, 0, 7]
    params = jax.tree.map(jnp.asarray, read.params)
    logits = build(read.model).apply(params, Batch(tokens=jnp.array([tokens]))).logits
    assert logits is not None
    np.testing.assert_allclose(logits[0], forward(file.weights, tokens), rtol=2e-5, atol=2e-5)


def test_a_file_comes_out_as_it_went_in(file: File, path: Path, tmp_path: Path):
    llama2c.write(tmp_path / "out.bin", llama2c.read(path))
    assert (tmp_path / "out.bin").read_bytes() == file.content
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.bin", "out.bin"]


def test_the_real_file_comes_out_as_it_went_in(corpora: Path, tmp_path: Path):
    real = corpora / "stories260K" / "stories260K.bin"
    read = llama2c.read(real)
    assert (read.model.width, read.model.num_layers, read.model.num_kv_heads, read.model.head.tied) == (64, 5, 4, True)
    llama2c.write(tmp_path / "out.bin", read)
    assert (tmp_path / "out.bin").read_bytes() == real.read_bytes()


def test_tables_of_angles_are_computed_where_none_are_given(corpora: Path, tmp_path: Path):
    """PyTorch made those of the real file, by other approximations of sine and cosine."""
    read = llama2c.read(corpora / "stories260K" / "stories260K.bin")
    llama2c.write(tmp_path / "out.bin", replace(read, rotation=None))
    again = llama2c.read(tmp_path / "out.bin")
    assert again.rotation is not None and read.rotation is not None
    np.testing.assert_allclose(again.rotation, read.rotation, atol=1.2e-7)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kept", [0, 27, 28, 1000, -4, -1])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, tied: bool, kept: int):
    path = tmp_path / "short.bin"
    path.write_bytes(file_of(tied).content[:kept])
    with pytest.raises(ConfigError, match=r"short.bin (is no checkpoint|has [\d,]+ bytes, .* it is cut off)"):
        llama2c.read(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (file_of(True).content + b"\0\0\0\0", "it is something else"),
        (b"# A text that is longer than a header.\n" * 100, "is no checkpoint of llama2.c"),
        (np.array([0x616B3432, 1, D, F, L, N, K, V, S], "<i4").tobytes() + bytes(300), "version 1 .* --version 0"),
        (np.array([D, F, L, 3, 1, V, S], "<i4").tobytes() + bytes(300), "num_heads must divide width=16, got 3"),
        (np.array([D, -F, L, N, K, V, S], "<i4").tobytes() + bytes(300), "is no checkpoint of llama2.c"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes, complaint: str):
    path = tmp_path / "other.bin"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=complaint):
        llama2c.read(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"none.bin cannot be read: No such file"):
        llama2c.read(tmp_path / "none.bin")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"position": Learned()}, "position.kind='rope' and not 'learned'"),
        ({"position": Rope()}, "position.rope.pairs='interleaved' and not 'half'"),
        ({"norm": LayerNorm()}, "norm.kind='rms' and not 'layer'"),
        ({"norm_placement": "post"}, "norm_placement='pre' and not 'post'"),
        ({"attention": Attention(num_heads=4, qkv_bias=True, output_bias=False)}, "attention.qkv_bias=False"),
        ({"mixer": SelfAttention(window=4)}, "mixer.attention.window=None and not 4"),
        ({"feedforward": Dense(hidden=F, activation="geglu", bias=False)}, "feedforward.dense.activation='swiglu'"),
    ],
)
def test_a_model_that_the_layout_cannot_hold_is_refused(tmp_path: Path, changes: dict, field: str):
    model = replace(llama2c.Header(D, F, L, N, K, V, S).model(), **changes)
    with pytest.raises(ConfigError, match=f"holds only models with model.{field}"):
        llama2c.write(tmp_path / "out.bin", llama2c.Weights(model, params=None))


def test_what_changes_no_value_is_not_refused(tmp_path: Path):
    """Sizes that follow from others, and what only training uses."""
    path = tmp_path / "model.bin"
    path.write_bytes(file_of(True).content)
    read = llama2c.read(path)
    same = replace(read.model, dropout=0.1, remat="none", attention=replace(read.model.attention, head_dim=H))
    llama2c.write(tmp_path / "out.bin", replace(read, model=same))
    assert (tmp_path / "out.bin").read_bytes() == path.read_bytes()


def test_a_failed_write_leaves_nothing(tmp_path: Path):
    path = tmp_path / "model.bin"
    path.write_bytes(file_of(True).content)
    read = llama2c.read(path)
    with pytest.raises(StoreError, match="cannot write"):
        llama2c.write(tmp_path / "none" / "out.bin", read)
    (tmp_path / "folder.bin").mkdir()
    with pytest.raises(StoreError, match="cannot write"):
        llama2c.write(tmp_path / "folder.bin", read)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.bin", "model.bin"]
