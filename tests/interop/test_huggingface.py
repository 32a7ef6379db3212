"""Folders of config.json and safetensors: streamed, sharded, and refused where they are not whole."""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from txjax import presets
from txjax.interop import huggingface, table
from txjax.interop.huggingface import files
from txjax.models import Decoder
from txjax.schema import ConfigError
from txjax.store.files import StoreError

MODELS = {
    "gpt2": presets.gpt2(12, 3, 2, context=8, vocab_size=9),
    "llama": presets.llama(12, 3, 2, hidden=10, num_kv_heads=1, context=8, vocab_size=9),
}


def params_of(model: Any) -> Any:
    random = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: random.standard_normal(leaf.shape, np.float32), Decoder(model).shapes())


@pytest.fixture(params=MODELS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder of theirs, to damage."""
    path = tmp_path / request.param
    path.mkdir()
    model = MODELS[request.param]
    assert huggingface.write(path, model, params_of(model)).model_type == request.param
    return path


def damage(folder: Path, **changes: Any) -> None:
    """Tensors replaced, or with None removed."""
    tensors = {**load_file(folder / files.WEIGHTS), **changes}
    save_file({name: x for name, x in tensors.items() if x is not None}, folder / files.WEIGHTS)


def name_of(folder: Path) -> str:
    return {"gpt2": "transformer.h.1.mlp.c_fc.weight", "llama": "model.layers.1.mlp.up_proj.weight"}[folder.name]


# ---------------------------------------------------------------- files


def test_the_library_reads_what_is_written_here(folder: Path):
    ours = files.stored(folder)
    theirs = load_file(folder / files.WEIGHTS)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        np.testing.assert_array_equal(np.asarray(ours[name]), tensor)
    size = int.from_bytes((folder / files.WEIGHTS).read_bytes()[:8], "little")
    assert size % 8 == 0


@pytest.mark.parametrize("shard", [1, 1000, 10_000])
def test_shards_hold_no_more_than_they_may(folder: Path, tmp_path: Path, shard: int):
    read = huggingface.read(folder)
    cut = tmp_path / "cut"
    cut.mkdir()
    huggingface.write(cut, read.model, read.params, shard=shard)
    index = json.loads((cut / files.INDEX).read_text())
    parts = sorted(cut.glob("*.safetensors"))
    assert sorted(set(index["weight_map"].values())) == [path.name for path in parts]
    sizes = {path.name: [x.nbytes for x in load_file(path).values()] for path in parts}
    assert all(sum(held) <= shard or len(held) == 1 for held in sizes.values())
    assert index["metadata"]["total_size"] == sum(map(sum, sizes.values()))
    jax.tree.map(np.testing.assert_array_equal, huggingface.read(cut).params, read.params)


class Lazy:
    """A tensor that is made when it is asked for; `most` is the largest number of bytes alive at once."""

    alive: dict[int, int]
    most = 0

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape = values, values.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        made = self.values.copy()
        Lazy.alive[id(made)] = made.nbytes
        weakref.finalize(made, Lazy.alive.pop, id(made))
        Lazy.most = max(Lazy.most, sum(Lazy.alive.values()))
        return made


@pytest.mark.parametrize("name", MODELS)
def test_one_tensor_is_held_at_a_time(name: str):
    """Reading: no more of theirs than one tensor. Writing: each is made when it is asked for, and let go."""
    model, family = Decoder(MODELS[name]), huggingface.family_of(name)
    params = params_of(MODELS[name])
    theirs = dict(table.write(family.table, model, params))
    largest = max(x.nbytes for x in theirs.values())
    Lazy.alive, Lazy.most = {}, 0
    family.read(model, {name: Lazy(x) for name, x in theirs.items()})
    assert 0 < Lazy.most <= largest and not Lazy.alive
    coming: Iterator[tuple[str, np.ndarray]] = table.write(family.table, model, params)
    seen: weakref.ref | None = None
    for _ in theirs:
        _, tensor = next(coming)
        assert seen is None or seen() is None
        seen = weakref.ref(tensor if tensor.base is None else tensor.base)
        del tensor
        if any(seen() is leaf for leaf in jax.tree.leaves(params)):
            seen = None  # theirs is ours as it is


def test_narrow_types_become_float32(folder: Path):
    wide = load_file(folder / files.WEIGHTS)
    save_file({name: x.astype(np.float16) for name, x in wide.items()}, folder / files.WEIGHTS)
    read = huggingface.read(folder)
    family = huggingface.family_of(folder.name)
    back = dict(table.write(family.table, Decoder(read.model), read.params))
    for name, x in wide.items():
        assert back[name].dtype == np.float32
        np.testing.assert_array_equal(back[name], x.astype(np.float16).astype(np.float32))


def test_names_without_the_prefix_are_those_of_the_bare_model(folder: Path):
    family = huggingface.family_of(folder.name)
    want = huggingface.read(folder).params
    tensors = load_file(folder / files.WEIGHTS)
    save_file({name.removeprefix(family.prefix): x for name, x in tensors.items()}, folder / files.WEIGHTS)
    jax.tree.map(np.testing.assert_array_equal, huggingface.read(folder).params, want)


# ---------------------------------------------------------------- what is refused


def test_tensors_that_do_not_fit_are_named(folder: Path):
    name = name_of(folder)
    damage(folder, **{name: None, "spare": np.zeros(3, np.float32)})
    with pytest.raises(ConfigError, match=rf"{name} is missing; spare \[3\] is not of this model"):
        huggingface.read(folder)
    damage(folder, **{name: np.zeros((10, 11), np.float32), "spare": None})
    with pytest.raises(ConfigError, match=rf"{name} must be \[\d+, \d+\], is \[10, 11\]"):
        huggingface.read(folder)


def test_numbers_that_are_no_weights_are_refused(folder: Path):
    name = name_of(folder)
    damage(folder, **{name: load_file(folder / files.WEIGHTS)[name].astype(np.int8)})
    with pytest.raises(ConfigError, match=rf"weights must be of type F64, F32, F16, BF16; {name} is I8"):
        huggingface.read(folder)


def test_buffers_are_passed_over(folder: Path):
    buffer = {"gpt2": "transformer.h.0.attn.bias", "llama": "model.layers.0.self_attn.rotary_emb.inv_freq"}
    want = huggingface.read(folder).params
    damage(folder, **{buffer[folder.name]: np.zeros(3, np.int64)})
    jax.tree.map(np.testing.assert_array_equal, huggingface.read(folder).params, want)


@pytest.mark.bug("huggingface/transformers#11364", "T110")
def test_a_tied_head_may_be_stored_but_must_be_the_embedding(tmp_path: Path):
    model = MODELS["gpt2"]
    huggingface.write(tmp_path, model, params_of(model))
    want = huggingface.read(tmp_path).params
    table_VD = load_file(tmp_path / files.WEIGHTS)["transformer.wte.weight"]
    damage(tmp_path, **{"lm_head.weight": table_VD})
    got = huggingface.read(tmp_path).params
    jax.tree.map(np.testing.assert_array_equal, got, want)
    assert "head" not in got
    damage(tmp_path, **{"lm_head.weight": table_VD + 1})
    with pytest.raises(
        ConfigError, match=r"lm_head.weight is not transformer.wte.weight, though config.json ties them"
    ):
        huggingface.read(tmp_path)


@pytest.mark.parametrize("kept", [0, 7, 100, -4])
def test_a_file_that_is_cut_off_is_refused(folder: Path, kept: int):
    path = folder / files.WEIGHTS
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ConfigError, match=r"model.safetensors is no safetensors file, or is cut off"):
        huggingface.read(folder)


def test_shards_and_index_must_agree(folder: Path, tmp_path: Path):
    read = huggingface.read(folder)
    cut = tmp_path / "cut"
    cut.mkdir()
    huggingface.write(cut, read.model, read.params, shard=1000)
    index = json.loads((cut / files.INDEX).read_text())
    first, *others = sorted(set(index["weight_map"].values()))
    name = next(name for name, shard in index["weight_map"].items() if shard == first)
    index["weight_map"][name] = others[0]
    (cut / files.INDEX).write_text(json.dumps(index))
    with pytest.raises(ConfigError, match=f"puts {name} into {others[0]}, which does not hold it"):
        huggingface.read(cut)
    (cut / others[0]).unlink()
    with pytest.raises(ConfigError, match=f"{others[0]} cannot be read: No such file"):
        huggingface.read(cut)
    (cut / files.INDEX).write_text("{}")
    with pytest.raises(ConfigError, match=r"index.json has no weight_map"):
        huggingface.read(cut)


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("config.json", None, "has no config.json: give a folder as transformers saves one"),
        ("config.json", "{", "config.json is no JSON, or is cut off"),
        ("config.json", "[]", "config.json is no config of a model"),
        ("config.json", '{"model_type": "lama"}', "model_type='lama' is not known here, did you mean 'llama'"),
        (
            "config.json",
            '{"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4"}}',
            r"describes quantised weights \(mxfp4\): give those before quantisation",
        ),
        (files.WEIGHTS, None, "has neither model.safetensors nor model.safetensors.index.json"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(folder: Path, file: str, content: str | None, complaint: str):
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(ConfigError, match=complaint):
        huggingface.read(folder)


def test_pickles_are_not_opened(folder: Path):
    shutil.move(folder / files.WEIGHTS, folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"pytorch_model.bin is a pickle; save it anew with safe_serialization"):
        huggingface.read(folder)


def test_what_cannot_be_written_is_an_error(tmp_path: Path):
    model = MODELS["llama"]
    with pytest.raises(StoreError, match="cannot write"):
        huggingface.write(tmp_path / "none", model, params_of(model))
