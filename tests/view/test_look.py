"""What a run makes of a text, and the page of it, before a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_look import HOSTILE, WIDE, encoder, translator, weights
from small_run import here

from txjax import probe
from txjax.api import Loaded
from txjax.batch import Batch
from txjax.config import Attention, Config, Data, Encoder, Model, Train
from txjax.data.codec import Codec
from txjax.data.tokenizers.bytes import Bytes
from txjax.data.tokenizers.char import Char
from txjax.data.tokenizers.listed import Listed
from txjax.data.tokenizers.words import Words
from txjax.models import Decoder, build, presets
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.none import NoHead
from txjax.nn.mixers.attention import SelfAttention
from txjax.nn.mixers.gru import GRU
from txjax.nn.mixers.latent import Latent
from txjax.schema import ConfigError
from txjax.store import Run
from txjax.train.state import initial_state
from txjax.view import reading as reading_of
from txjax.view.attention import attention_page, facts, shades
from txjax.view.reading import labels, read, task

CODEC = Char().build(["abcdefghij klmnopqrstuvwxyz"])
PAIRS = Words().build(["the dog runs over the hill"])
MODEL = Model(width=8, num_layers=2, vocab_size=CODEC.vocab_size, context=32)


def loaded(model: Model, codec: Codec = CODEC, seed: int = 0) -> Loaded:
    """A run of random weights."""
    built = build(model)
    random = np.random.default_rng(seed)
    params = jax.tree.map(
        lambda leaf: jnp.asarray(0.3 * random.standard_normal(leaf.shape), leaf.dtype), built.shapes()
    )
    return Loaded(Config(model=model), built, params, codec, 7, Path("runs/some"))


# ---------------------------------------------------------------- a run and a text


@pytest.fixture
def maps_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the probes of heads and layers, which take most of the time."""
    monkeypatch.setattr(reading_of, "_probes", lambda *_: ([], None, []))


def test_a_text_that_the_run_writes_has_the_rows_of_the_text_before_it():
    run = loaded(MODEL)
    short, long = read(run, "a", "a dog"), read(run, "a", "a dog", tokens=4)
    assert short.tokens == ["a", "␣", "d", "o", "g"] and short.given == long.given == 5
    assert len(long.tokens) == 9 and long.tokens[:5] == short.tokens
    for one, other in zip(short.maps["self"], long.maps["self"], strict=True):
        assert one.weights.shape == (4, 5, 5) and other.weights.shape == (4, 9, 9)
        np.testing.assert_allclose(other.weights[:, :5, :5], one.weights, atol=1e-6)
        np.testing.assert_allclose(other.weights.sum(-1), 1, atol=1e-5)
    assert {one.name for one in long.heads} == {"importance", "knocked out", "induction", "previous token"}
    assert long.lens is not None and len(long.lens.words) == 3


def test_what_is_written_is_the_likeliest_token_each_time():
    run = loaded(MODEL)
    reading = read(run, "a", "a dog", tokens=3)
    ids = run.codec.encode("a dog").tolist()
    asked = task(run, ids, Batch(tokens=jnp.asarray([ids])))
    assert asked is not None
    np.testing.assert_array_equal(asked.targets[0, :-1], ids[1:])
    np.testing.assert_array_equal(asked.weights, [[1] * 4 + [0]])
    for _ in range(3):
        ids.append(int(run.model.apply(run.params, Batch(tokens=jnp.asarray([ids]))).logits[0, -1].argmax()))
    assert reading.tokens == labels(run.codec, ids)
    assert reading.lens is not None and reading.lens.words[-1][-2] == reading.tokens[-1]  # the lens's top row says it


def test_a_decoder_over_an_encoder_reads_a_target_or_what_it_writes():
    model = Model(width=8, num_layers=1, vocab_size=PAIRS.vocab_size, context=32, encoder=Encoder(num_layers=1))
    run = loaded(model, PAIRS)
    reading = read(run, "a", "the dog runs", target="over hill")
    assert (reading.source, reading.tokens) == (["the", "dog", "runs", "<separator>"], ["<separator>", "over", "hill"])
    shapes = {part: [m.weights.shape for m in maps] for part, maps in reading.maps.items()}
    assert shapes == {"self": [(4, 3, 3)], "cross": [(4, 3, 4)], "encoder": [(4, 4, 4)]}
    assert {(one.name, one.part) for one in reading.heads} == {
        (name, part) for name in ("importance", "knocked out") for part in ("self", "cross", "encoder")
    }


@pytest.mark.usefixtures("maps_alone")
def test_a_source_is_shown_in_its_own_vocabulary():
    codec = PAIRS.with_source(Listed((*"abcdefghijklmnopqrstuvwxyz ", "."), between="nothing", end=".").build([]))
    model = Model(width=8, num_layers=1, context=32, encoder=Encoder(num_layers=1, embedding="own"))
    reading = read(loaded(Config(model=model).with_vocab(*codec.sizes).model, codec), "a", "a zoo")
    assert reading.source == ["a", "␣", "z", "o", "o", "<separator>"]
    assert set(reading.tokens) <= {label for i in range(PAIRS.vocab_size) for label in labels(PAIRS, [i])}


@pytest.mark.usefixtures("maps_alone")
def test_a_translation_ends_by_itself_or_after_so_many_tokens():
    model = Model(width=8, num_layers=1, vocab_size=PAIRS.vocab_size, context=32, encoder=Encoder(num_layers=1))
    run = loaded(model, PAIRS)
    few, all_of_it = read(run, "a", "the dog runs", tokens=3), read(run, "a", "the dog runs")
    assert few.given == 1 and 2 <= len(few.tokens) <= 4 and all_of_it.tokens[: len(few.tokens)] == few.tokens
    assert all_of_it.tokens[-1] == "<separator>" or len(all_of_it.tokens) == 32
    assert all_of_it.maps["cross"][0].weights.shape == (4, len(all_of_it.tokens), 4)


def test_a_recurrent_translator_shows_how_it_aligns():
    model = presets.seq2seq(GRU(), width=8, num_layers=1, vocab_size=PAIRS.vocab_size)
    reading = read(loaded(replace(model, attention=Attention(num_heads=1)), PAIRS), "a", "the dog", target="over hill")
    assert [one.weights.shape for one in reading.maps.pop("cross")] == [(1, 3, 3)]
    assert reading.maps == {} and reading.heads == [] and reading.lens is not None


def test_an_encoder_is_asked_for_each_token_in_turn_and_one_without_a_head_by_its_vector():
    codec = CODEC.extended(("cls", "sep", "mask"))
    model = replace(MODEL, causal=False, vocab_size=codec.vocab_size, head=Masked())
    run = loaded(model, codec)
    reading = read(run, "a", "dog")
    assert reading.tokens == ["<cls>", "d", "o", "g", "<sep>"] and reading.own == "encoder"
    ids = [codec.specials["cls"], *codec.encode("dog").tolist(), codec.specials["sep"]]
    asked = task(run, ids, Batch(tokens=jnp.asarray([ids])))
    assert asked is not None
    np.testing.assert_array_equal(asked.weights, np.eye(5)[1:4])
    np.testing.assert_array_equal(asked.tokens, np.where(np.eye(5)[1:4] > 0, codec.specials["mask"], ids))
    bare = read(loaded(replace(model, head=NoHead()), codec), "a", "dog")
    assert bare.lens is None and len(bare.missing) == 2
    assert [one.name for one in bare.heads] == ["knocked out"] and (bare.heads[0].values > 1e-6).all()


@pytest.mark.usefixtures("maps_alone")
@pytest.mark.parametrize("mixer", [SelfAttention(window=2), Latent(kv_rank=4)], ids=["window", "latent"])
def test_windows_and_latent_heads_have_whole_maps(mixer: Any):
    """No cache takes part in a map: a ring has no rows of its own, and latent keys are made for each token."""
    [first, _] = read(loaded(replace(MODEL, width=16, mixer=mixer)), "a", "a dog", tokens=3).maps["self"]
    assert first.weights.shape == (4, 8, 8)
    np.testing.assert_allclose(first.weights.sum(-1), 1, atol=1e-5)
    assert (first.weights > 0).sum(-1).max() == (2 if mixer.kind == "attention" else 8)


@pytest.mark.usefixtures("maps_alone")
def test_a_text_in_chinese_over_bytes_says_which_bytes():
    codec = Bytes().build([])
    run = loaded(replace(MODEL, vocab_size=codec.vocab_size), codec)
    assert "e7" in " ".join(read(run, "a", "猫 a").tokens)
    assert labels(Char().build(["猫太累\n"]), [0, 1, 2, 3]) == ["⏎", "太", "猫", "累"]


@pytest.mark.parametrize(
    ("model", "how", "complaint"),
    [
        (presets.recurrent(GRU(), width=8, vocab_size=CODEC.vocab_size), {}, "no attention weights to show"),
        (MODEL, {"text": "a" * 40}, "the text has 40 tokens, and the model reads 32"),
        (MODEL, {"text": "a" * 32, "tokens": 1}, "the text fills the model's context of 32 tokens"),
        (MODEL, {"target": "a"}, "--target is for a model with an encoder"),
        (replace(MODEL, causal=False), {"tokens": 2}, "--tokens needs a model that writes text"),
    ],
)
def test_what_cannot_be_shown_is_said(model: Model, how: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        read(loaded(model), "a", **{"text": "a dog", **how})


# ---------------------------------------------------------------- the page


def test_a_shade_is_within_a_step_of_its_weight():
    w = weights(3, 20, 20, seed=1)
    got = (np.frombuffer(base64.b64decode(shades(w)), np.uint8).reshape(w.shape) / 255.0) ** 2
    assert (np.abs(got - w) <= np.sqrt(w) / 255 + 1e-5).all()
    ends = np.array([[[0.0, 1.0, 1 + 1e-6]]])
    assert base64.b64decode(shades(ends)) == b"\x00\xff\xff"


def policy_and_script(page: str) -> tuple[str, str]:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    assert policy and script
    return policy[1], script[1]


def test_the_page_allows_its_own_script_and_nothing_else():
    page = attention_page([translator("before"), translator("after", seed=3)])
    policy, script = policy_and_script(page)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    assert page.count("<script") == 2 and "http" not in script and " src=" not in page


def test_texts_stay_texts_and_come_back_from_the_data():
    readings = [translator("before")]
    page = attention_page(readings)
    told = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert told and json.loads(told[1]) == facts(readings)
    assert HOSTILE in json.loads(told[1])["panes"][0]["tokens"]
    assert "Attention is not proof" in page and "Jain and Wallace 2019" in page and "Wiegreffe and Pinter 2019" in page


def test_the_panes_say_what_differs():
    def titles(*readings: Any) -> list[str]:
        return [pane["title"] for pane in facts(readings)["panes"]]

    tired, wide = encoder("a"), encoder("a", WIDE)
    assert titles(tired) == ["a"] and titles(tired, encoder("b")) == ["a", "b"]
    assert titles(tired, wide) == [tired.text, wide.text]
    assert titles(tired, encoder("b", WIDE)) == [f"a · {tired.text}", f"b · {wide.text}"]


def test_six_layers_of_twelve_heads_and_64_tokens_are_less_than_a_megabyte():
    tokens = [f"token{i}" for i in range(64)]
    assert len(attention_page([encoder("a", tokens)]).encode()) < 1e6


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one checkpoint, at step 5."""
    folder = tmp_path_factory.mktemp("looked") / "run"
    config = Config(model=MODEL, data=Data(tokenizer="char"), train=Train(steps=5))  # type: ignore[arg-type]
    with Run.open(folder, config, fingerprint="x", command=["test"]) as run, run.checkpoints(keep_last=1) as saver:
        CODEC.save(run.tokenizer)
        params = loaded(MODEL).params
        saver.save(5, params=params, opt_state={"m": np.zeros(1)}, progress={"n": 0}, data={})
    return folder


def data_of(page: Path) -> dict[str, Any]:
    told = re.search(r'<script id="data" type="application/json">(.*?)</script>', page.read_text(), re.DOTALL)
    assert told
    return json.loads(told[1])


@pytest.mark.usefixtures("maps_alone")
def test_look_shows_a_run_before_and_after_training(workdir: Path):
    code, out, err = here("look", f"--workdir={workdir}", "--step=0,latest", "--text=a dog", "--between=o,a")
    assert (code, err) == (0, "")
    page = workdir / "samples" / "look.html"
    assert str(page) in out
    data = data_of(page)
    assert [pane["title"] for pane in data["panes"]] == ["run, step 0", "run, step 5"]
    assert data["between"] == ["o", "a"]
    config = Run.read(workdir).config
    first = initial_state(config, Decoder(config.model)).params
    maps = probe.attention_maps(Decoder(MODEL), first, Batch(tokens=jnp.asarray([CODEC.encode("a dog")])))
    assert data["panes"][0]["maps"]["self"][1]["bytes"] == shades(np.asarray(maps[1, 0]))
    assert data["panes"][1]["maps"]["self"][1]["bytes"] != data["panes"][0]["maps"]["self"][1]["bytes"]


@pytest.mark.usefixtures("maps_alone")
def test_look_takes_two_texts_of_two_runs_and_no_more(workdir: Path, tmp_path: Path):
    page = tmp_path / "new" / "page.html"
    both = f"--workdir={workdir},{workdir}"
    code, _, err = here("look", both, "--text=a dog", "--text=a fog", f"--out={page}")
    assert (code, err) == (0, "") and len(data_of(page)["panes"]) == 4
    for words, complaint in (
        ([both, "--step=5,5", "--text=a"], "--step says one step where --workdir says two runs"),
        ([f"{both},{workdir}", "--text=a"], "at most two"),
        ([both, *["--text=a"] * 3], "--text is given once or twice, got 3"),
        ([both, "--text=a", "--between=it"], "--between is two tokens"),
        ([both, "--text=A"], "character 'A'"),
        ([both, "--text=a", f"--out={page}/inside.html"], "--out: cannot make the folder"),
    ):
        code, out, err = here("look", *words)
        assert (code, out) == (2, "") and complaint in err
