"""Generation: by a cache as by full passes, in a batch as alone, and ending where it should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scripted import Scripted
from weights import parameters

from txjax import api
from txjax.batch import Batch
from txjax.config import Alibi, Attention, Config, Encoder, Layer, Learned, Model, Rope, SelfAttention
from txjax.data.tokenizers.bytes import Bytes
from txjax.decode import Sampling, generate
from txjax.decode.generate import _loop
from txjax.models import Decoder, presets
from txjax.schema import ConfigError

CONTEXT, VOCAB = 16, 23
ROPE = Model(
    width=16,
    num_layers=2,
    vocab_size=VOCAB,
    context=CONTEXT,
    attention=Attention(num_heads=2),
    position=Rope(),
    head="linear",  # with large weights a tied one says the last token again and again
)
GROUPED = Attention(num_heads=4, num_kv_heads=2)
MODELS = {
    "learned": replace(ROPE, position=Learned()),
    "alibi": replace(ROPE, position=Alibi()),
    "rope, grouped heads, local layers": replace(
        ROPE,
        num_layers=5,
        attention=GROUPED,
        first_layers=(Layer(),),
        pattern=(Layer(mixer=SelfAttention(window=4)), Layer()),
    ),
}
GREEDY = Sampling(temperature=0.0)
PROMPTS = [[5, 3, 8], [7, 7, 1, 0, 2, 9, 4, 6, 2]]


def sampled(model: Any, prompts: Sequence[Sequence[int]], tokens: int, sampling: Sampling, **more: Any) -> Any:
    params = parameters(model.config) if isinstance(model, Decoder) else None
    how = {"tokens": tokens, "sampling": sampling, "seeds": range(len(prompts)), "context": None} | more
    return generate(model, params, prompts, **how)


@cache
def full_pass(model: Model) -> Any:
    """Tokens of one text, as long as the context, to logits."""
    decoder, params = Decoder(model), parameters(model)
    return jax.jit(lambda tokens: decoder.apply(params, Batch(tokens=tokens[None])).logits[0])  # type: ignore[index]


def by_full_passes(model: Model, prompt: list[int], tokens: int) -> list[int]:
    """The likeliest tokens, each by a pass over the text; once that is too long, over its last half."""
    seen, new = list(prompt), []
    for _ in range(tokens):
        if len(seen) > CONTEXT:
            seen = seen[-CONTEXT // 2 :]
        padded = jnp.array(seen + [0] * (CONTEXT - len(seen)))
        new.append(int(full_pass(model)(padded)[len(seen) - 1].argmax()))
        seen.append(new[-1])
    return new


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.bug("google/flax#5591", "huggingface/transformers#3021", "huggingface/transformers#25420")
def test_a_batch_of_unequal_prompts_is_what_full_passes_give_each_past_the_context_too(model: Model):
    prompts = [*PROMPTS, list(range(CONTEXT + 4))]  # the last is longer than the context from the start
    got = sampled(Decoder(model), prompts, 24, GREEDY, context=CONTEXT, past_context="slide")
    assert got == [by_full_passes(model, prompt, 24) for prompt in prompts]
    assert len({token for row in got for token in row}) > 3


@pytest.mark.parametrize(
    "preset", [presets.rnn, presets.gru, presets.lstm, presets.min_gru], ids=lambda p: p.args[0].kind
)
def test_a_recurrent_model_forgets_nothing_past_its_context(preset: Any):
    """Its state is the cache: there is nothing to slide, and no length at which to refuse."""
    model = preset(16, 2, context=CONTEXT, vocab_size=VOCAB)
    assert model.memory is None
    got = sampled(Decoder(model), PROMPTS, CONTEXT + 8, GREEDY, context=model.memory)
    apply = jax.jit(lambda tokens: Decoder(model).apply(parameters(model), Batch(tokens=tokens)).logits)
    for prompt, new in zip(PROMPTS, got, strict=True):
        text = jnp.array([prompt + new])
        assert apply(text)[0, len(prompt) - 1 : -1].argmax(-1).tolist() == new  # type: ignore[index]
    assert len({token for row in got for token in row}) > 3


def test_up_to_the_context_nothing_is_forgotten():
    """context + 1 tokens fit, since the last one is not read."""
    model = MODELS["learned"]
    got = sampled(Decoder(model), PROMPTS[:1], CONTEXT - 2, GREEDY, context=CONTEXT, past_context="error")
    assert got == [by_full_passes(model, PROMPTS[0], CONTEXT - 2)]


@pytest.mark.bug("jax-ml/jax#4455")
def test_past_the_context_is_an_error_unless_it_may_slide():
    decoder = Decoder(ROPE)
    with pytest.raises(ConfigError, match="prompt of 9 tokens and 9 new ones run past the context of 16: ask for at m"):
        sampled(decoder, PROMPTS, 9, GREEDY, context=CONTEXT)
    with pytest.raises(ConfigError, match="ask for at most 8, or choose past_context=slide"):
        sampled(decoder, PROMPTS, 9, GREEDY, context=CONTEXT)
    with pytest.raises(ConfigError, match=r"prompt of 20 tokens .* shorten it, or choose past_context=slide"):
        sampled(decoder, [[1] * 20], 1, GREEDY, context=CONTEXT)


# ---------------------------------------------------------------- over an encoder

OVER_ENCODER = presets.llama(
    16, 2, 2, hidden=24, context=CONTEXT, vocab_size=VOCAB, encoder=Encoder(num_layers=1), first_layers=(Layer(),)
)
SOURCES = [[5, 3, 8], [7, 7, 1, 4, 2, 9, 4, 6, 2, 11, 3], [1]]


@pytest.mark.bug("T040", "huggingface/transformers#47946", "keras-team/keras-io#1046")
def test_a_batch_of_unequal_sources_is_what_full_passes_give_each():
    """Prompts of one id, as they are with an encoder, and unequal ones; sources are padded, as prompts are."""
    decoder, params = Decoder(OVER_ENCODER), parameters(OVER_ENCODER)

    @jax.jit
    def full(text: jax.Array, source: jax.Array) -> jax.Array:
        real = (source >= 0).astype(int)  # what is hidden may hold anything
        return decoder.apply(params, Batch(tokens=text, source=source % VOCAB, source_segments=real)).logits

    sources = np.array([source + [-1] * (CONTEXT - len(source)) for source in SOURCES])
    for prompts in ([[3], [0], [3]], [[5, 3, 8], [7], [7, 7, 1, 0]]):
        new = sampled(decoder, prompts, 10, GREEDY, sources=SOURCES, context=CONTEXT)
        texts = [prompt + ids for prompt, ids in zip(prompts, new, strict=True)]
        padded = np.array([text + [0] * (CONTEXT - len(text)) for text in texts])
        for prompt, ids, row in zip(prompts, new, np.asarray(full(padded, sources)).argmax(-1), strict=True):
            assert ids == row[len(prompt) - 1 :][:10].tolist()
        assert len({token for ids in new for token in ids}) > 3
    assert len({tuple(ids[1:]) for ids in new}) == 3  # the source is read


@pytest.mark.parametrize(
    ("model", "sources", "complaint"),
    [
        (OVER_ENCODER, None, "needs batch.source, what its encoder reads"),
        (ROPE, SOURCES[:1], "needs no batch.source"),
        (OVER_ENCODER, SOURCES, "1 prompts need 1 sources, got 3"),
        (OVER_ENCODER, [[]], "source 0 has no tokens"),
        (OVER_ENCODER, [[-1]], "source 0 has the id -1, outside the vocabulary"),
        (replace(OVER_ENCODER, position=Learned()), [[1] * 17], "a source of 17 tokens runs past model.context=16"),
    ],
)
def test_what_an_encoder_cannot_read_is_refused(model: Model, sources: Any, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        sampled(Decoder(model), [[1]], 3, GREEDY, sources=sources, context=CONTEXT)


# ---------------------------------------------------------------- the end of a text

END = 0
TEXTS = {1: [9, 1, 2, 3, END, 8, 8], 2: [9, 9, 9, 4, 5, 6, 7, END], 3: [5, 6, 7], 4: [END]}


@pytest.mark.bug("huggingface/transformers#28377", "huggingface/transformers#25790")
def test_each_text_ends_at_its_own_end_and_padding_is_no_end():
    """The id that ends a text also fills up prompts, and stands inside two of them."""
    model = Scripted(TEXTS, VOCAB)
    prompts = [[1], [2, END, 5], [3], [4], [1, END]]
    ending = replace(GREEDY, end=END)
    together = sampled(model, prompts, 12, ending)
    assert together == [
        [1, 2, 3, END],
        [4, 5, 6, 7, END],
        [6, 7, 5, 6, 7, 5, 6, 7, 5, 6, 7, 5],
        [END],
        [2, 3, END],
    ]
    for prompt, row in zip(prompts, together, strict=True):
        assert sampled(model, [prompt], 12, ending) == [row]


@pytest.mark.bug("huggingface/optimum-habana#1358")
def test_drawing_stops_when_all_texts_have_ended():
    """The longest says three tokens, of which the first needs no step."""
    steps: list[None] = []
    texts = {1: [9, 1, 2, END], 2: [9, 4, END], 3: [END]}
    model = Scripted(texts, VOCAB, stepped=lambda: steps.append(None))
    got = sampled(model, [[1], [2], [3]], 200, replace(GREEDY, end=END))
    jax.effects_barrier()
    assert got == [[1, 2, END], [4, END], [END]]
    assert len(steps) == 2


def test_a_text_that_ended_does_not_go_on_after_the_others_slide():
    model = Scripted({1: [9, 9, END], 2: [9, 9, 9] + [2] * 40}, VOCAB)
    got = sampled(model, [[1, 9], [2, 9, 9]], 30, replace(GREEDY, end=END), context=6, past_context="slide")
    assert got[0] == [END]
    assert got[1] == sampled(model, [[2, 9, 9]], 30, replace(GREEDY, end=END), context=6, past_context="slide")[0]
    assert len(got[1]) == 30


# ---------------------------------------------------------------- how a token is drawn


@pytest.mark.bug("karpathy/nanoGPT#738")
def test_temperature_zero_is_the_likeliest_for_all_rows_or_for_some():
    model = Scripted({1: [2, 3, 4], 2: [5, 6, 7]}, VOCAB)
    greedy = [[3, 4, 2, 3, 4, 2, 3], [6, 7, 5, 6, 7, 5, 6]]
    assert sampled(model, [[1], [2]], 7, GREEDY) == greedy
    assert sampled(model, [[1], [2]], 7, Sampling(temperature=1e-6)) == greedy
    mixed = sampled(model, [[1], [2]], 7, Sampling(temperature=(0.0, 1.0)))
    assert mixed[0] == greedy[0]
    assert mixed[1] == sampled(model, [[1], [2]], 7, Sampling(temperature=1.0))[1] != greedy[1]


@pytest.mark.bug("karpathy/nanoGPT#738")
@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), (0.0, -1.0)])
def test_a_temperature_that_means_nothing_is_refused(bad: Any):
    with pytest.raises(ConfigError, match=r"temperature must be 0 \(greedy\) or a positive number"):
        Sampling(temperature=bad)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"prompts": []}, "there is no prompt"),
        ({"prompts": [[1], []], "seeds": [0, 1]}, "prompt 1 has no tokens"),
        ({"prompts": [[1, 23]]}, "prompt 0 has the id 23, outside the vocabulary of 23"),
        ({"prompts": [[-1]]}, "prompt 0 has the id -1, outside the vocabulary of 23"),
        ({"seeds": [0, 1]}, "1 prompts need 1 seeds, got 2"),
        ({"seeds": [-1]}, r"seeds must be in \[0, 2\^32\), got \[-1\]"),
        ({"tokens": -1}, "tokens must not be negative, got -1"),
        ({"sampling": Sampling(temperature=(0.0, 1.0))}, "1 prompts need 1 or 1 temperatures, got 2"),
    ],
)
@pytest.mark.bug("jax-ml/jax#4455")
def test_what_cannot_be_drawn_is_refused(change: dict[str, Any], complaint: str):
    asked = {"prompts": [[1]], "tokens": 1, "sampling": Sampling(limit=VOCAB), "seeds": [0], "context": None} | change
    with pytest.raises(ConfigError, match=complaint):
        generate(Decoder(ROPE), parameters(ROPE), asked.pop("prompts"), **asked)


def test_top_k_and_top_p_are_refused_outside_their_range():
    for wrong in ({"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}):
        with pytest.raises(ConfigError, match="top_"):
            Sampling(**wrong)  # type: ignore[arg-type]


@pytest.mark.bug("karpathy/nanoGPT#131")
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_k=21, top_p=0.99)], ids=["all", "filtered"])
def test_rows_of_the_embedding_without_a_token_are_never_drawn(sampling: Sampling):
    model = Scripted({1: [1]}, VOCAB, certainty=0.0)
    drawn = {limit: set(sampled(model, [[1]], 250, replace(sampling, limit=limit))[0]) for limit in (10, VOCAB)}
    assert drawn == {10: set(range(10)), VOCAB: set(range(VOCAB))}


def test_the_likeliest_row_without_a_token_is_not_drawn_either():
    model = Scripted({1: [20]}, VOCAB)
    assert sampled(model, [[1]], 3, GREEDY) == [[20, 20, 20]]
    assert sampled(model, [[1]], 3, replace(GREEDY, limit=20)) == [[0, 0, 0]]
    assert sampled(model, [[1]], 3, replace(GREEDY, never=(20, 0))) == [[1, 1, 1]]


@pytest.mark.bug("jax-ml/jax#192")
def test_a_seed_is_a_text():
    """Also in another batch, at another place and with another number of tokens; two seeds are two texts."""
    model, plain = Scripted({1: [2]}, VOCAB), Sampling()
    with jax.debug_key_reuse(True):
        [one, two] = sampled(model, [[1], [1]], 20, plain, seeds=[3, 4])
    assert one != two
    assert len(set(one)) > 5  # every token has a key of its own
    assert sampled(model, [[1], [1]], 15, plain, seeds=[9, 4])[1] == two[:15]
    assert sampled(model, [[1]], 20, plain, seeds=[4]) == [two]


def test_the_keys_of_a_text_go_on_where_it_slides():
    """This model's tokens depend on nothing but their keys."""
    model = Scripted({1: [1]}, VOCAB, certainty=0.0)
    [straight] = sampled(model, [[1]], 30, Sampling())
    assert sampled(model, [[1]], 30, Sampling(), context=8, past_context="slide") == [straight]


# ---------------------------------------------------------------- programs and types


@pytest.mark.bug("jax-ml/jax#817")
def test_prompts_of_many_lengths_share_programs():
    model = Scripted({first: [2, 3] for first in range(VOCAB)}, VOCAB)
    before = _loop._cache_size()
    for length in range(1, 61, 3):
        sampled(model, [[1] * length], 20, GREEDY)
    assert _loop._cache_size() - before <= 4
    sampled(model, [[1]], 20, Sampling(top_p=0.3))
    before = _loop._cache_size()
    for p in (0.4, 0.5, 0.6):
        sampled(model, [[1] * 2], 20, Sampling(temperature=p, top_p=p))
    assert _loop._cache_size() == before


@pytest.mark.bug("ml-explore/mlx-lm#1491", "T143")
@pytest.mark.parametrize("wide", [False, True], ids=["x32", "x64"])
def test_the_cache_keeps_the_type_of_the_config(wide: bool):
    decoder = Decoder(replace(MODELS["rope, grouped heads, local layers"], dtype="bfloat16"))
    batch = Batch(tokens=jnp.zeros((2, 3), jnp.int32))
    with jax.enable_x64(wide):
        _, before = jax.eval_shape(lambda p: decoder.prefill(p, batch, 8), decoder.shapes())
        _, after = jax.eval_shape(lambda p, c: decoder.step(p, jnp.zeros(2, jnp.int32), c), decoder.shapes(), before)
    assert jax.tree.leaves(before) == jax.tree.leaves(after)
    assert {leaf.dtype for leaf in jax.tree.leaves(after.states)} == {jnp.dtype("bfloat16")}


def test_with_64_bit_types_on_the_text_is_the_same():
    model = Scripted({1: [2, 3]}, VOCAB)
    want = sampled(model, [[1]], 7, Sampling())
    with jax.enable_x64(True):
        assert sampled(model, [[1]], 7, Sampling()) == want


# ---------------------------------------------------------------- text


@pytest.mark.bug("huggingface/transformers.js#853")
def test_chinese_and_emoji_come_out_whole_at_once_and_id_by_id():
    text = "注意力就是你所需要的 🙂👩‍💻, naïve"
    codec = Bytes().build([])
    ids = codec.encode("q" + text).tolist()
    model = Scripted({ids[0]: ids}, codec.vocab_size)
    run = api.Loaded(Config(), model, None, codec, 0, Path())  # type: ignore[arg-type]
    assert api.generate(run, "q", tokens=len(ids) - 1, temperature=0.0, past_context="slide") == ["q" + text]
    [drawn] = sampled(model, [ids[:1]], len(ids) - 1, GREEDY)
    stream = codec.stream()
    parts = [stream.push([token]) for token in drawn]
    assert "".join(parts) == text
    assert not any("\ufffd" in part for part in parts) and stream.close() == ""
