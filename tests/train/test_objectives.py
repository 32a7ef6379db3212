"""Each objective trains 200 steps on real text to below the best predictor that reads nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from small_run import assert_same_checkpoint, column

from txjax.config import Attention, Config, Cosine, Data, Encoder, Log, Model, Optim, Train
from txjax.config.data import Objective, Source
from txjax.data import interpreter
from txjax.data.annotated import Annotated
from txjax.data.dataset import Dataset, load
from txjax.data.objectives.causal import Causal
from txjax.data.objectives.denoising import Denoising
from txjax.data.objectives.masked import MaskedTokens
from txjax.data.objectives.prefix import Prefix
from txjax.data.objectives.span_corruption import SpanCorruption
from txjax.data.sources.labelled import Labelled
from txjax.data.sources.tagged import Tagged
from txjax.data.sources.text import Text
from txjax.models import build
from txjax.nn.embeddings.tokens import Tokens
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.linear import LinearHead
from txjax.nn.heads.masked import Masked
from txjax.nn.initialisations import Normal
from txjax.ops.positions import Rope
from txjax.parallel import make_layout
from txjax.train.evaluate import Evaluation, evaluate_split
from txjax.train.programs import Programs
from txjax.train.run import new_batches, train_run


class Ended(NamedTuple):
    data: Dataset
    evaluation: Evaluation


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """300 kB of Python's own documentation."""
    path = tmp_path_factory.mktemp("text") / "topics.txt"
    topics = itertools.islice(interpreter.documents("train", with_test=False), 120)
    path.write_text("\n".join(topics)[:300_000], encoding="utf-8")
    return str(path)


def config(
    source: Source, objective: Objective | None = None, *, context: int = 32, held_out: int = 48, **model: Any
) -> Config:
    fields = {"width": 32, "num_layers": 1, "context": context, "attention": Attention(num_heads=2), "remat": "none"}
    return Config(
        model=Model(**fields | {"position": Rope(), "init": Normal(std=0.1)} | model),
        data=Data(source=source, held_out=held_out, objective=objective or Causal()),
        optim=Optim(learning_rate=1e-2, schedule=Cosine(warmup=20)),
        train=Train(steps=200, batch_size=16),
    )


def trained(config: Config) -> Ended:
    """After all steps, on the validation split."""
    data = load(config)
    config = config.with_vocab(data.codec.vocab_size)
    layout = make_layout(config.mesh, jax.devices()[:1])
    with layout.scope():
        programs, batches = Programs(config, build(config.model), layout), new_batches(config, data)
        state = programs.initial_state()
        step, _ = programs.compile_train_step(next(batches))
        for batch in islice(batches, config.train.steps):
            state, _ = step(state, programs.to_devices(batch), programs.hyper)
        return Ended(data, evaluate_split(programs, state.params, data.validation))


ENCODER = {"causal": False}
OVER_ENCODER = {"encoder": Encoder(num_layers=1)}


@pytest.mark.parametrize(
    ("objective", "model"),
    [
        pytest.param(Causal(), {}, id="causal"),
        pytest.param(Prefix(), {}, id="prefix"),
        pytest.param(MaskedTokens(), ENCODER, id="masked"),
        pytest.param(
            MaskedTokens(form="pair"),
            ENCODER | {"embedding": Tokens(types=2), "head": Masked(next_sentence=True)},
            id="pair",
        ),
        pytest.param(SpanCorruption(), OVER_ENCODER, id="span_corruption"),
        pytest.param(Denoising(), OVER_ENCODER, id="denoising"),
    ],
)
@pytest.mark.long
def test_an_objective_learns_more_than_frequencies(text: str, objective: Objective, model: dict[str, Any]):
    data, evaluation = trained(config(Text(text), objective, held_out=400, **model))
    rows = np.arange(len(data.validation))
    assert evaluation.tokens == (data.validation.gather(rows)["weights"] > 0).sum() > 1200
    # a mean over so many tokens is right to about 0.03 nats; the text is another with each version of Python
    assert evaluation.loss < data.trivial_loss() - 0.1


def test_tokens_are_tagged_better_than_by_frequency():
    data, evaluation = trained(config(Tagged(), head=LinearHead(outputs=6), **ENCODER))
    assert evaluation.loss < data.trivial_loss() - 0.2
    shares = np.bincount(data.validation.gather(np.arange(48))["targets"].ravel()) / 48 / 32
    assert evaluation.accuracy > shares.max() + 0.1


def test_texts_are_classified_better_than_by_frequency(corpora: Path):
    """The kind of a question (TREC) is mostly in its first words."""
    head = Classes(outputs=6, pool="mean")
    data, evaluation = trained(config(Labelled("trec"), head=head, **ENCODER))
    assert evaluation.tokens == 48  # one target a text
    assert evaluation.loss < data.trivial_loss() - 0.2 and evaluation.accuracy > 0.5


def test_rows_of_several_widths_are_judged_as_padded_ones_are(corpora: Path):
    """Within 1e-6: sums of fewer zeros, in another order."""
    head = Classes(outputs=6, pool="mean")
    found = []
    for buckets in (1, 4):
        about = config(Labelled("trec", buckets=buckets), head=head, context=96, held_out=200, **ENCODER)
        data = load(about)
        about = about.with_vocab(data.codec.vocab_size)
        layout = make_layout(about.mesh, jax.devices()[:1])
        with layout.scope():
            programs = Programs(about, build(about.model), layout)
            found.append(evaluate_split(programs, programs.initial_state().params, data.validation))
        assert isinstance(data.validation, Annotated) and len(data.validation.widths) == buckets
    assert found[0].accuracy == found[1].accuracy and found[0].tokens == found[1].tokens == 200
    np.testing.assert_allclose(found[0].loss, found[1].loss, rtol=1e-6)


def test_a_run_of_an_objective_stopped_and_resumed_is_the_run_that_went_on(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Into the second epoch, whose masks are others."""
    plain = config(Text(text), MaskedTokens(), **ENCODER)
    short = replace(
        plain,
        data=replace(plain.data, source=Text(cut_short(text, tmp_path))),
        train=replace(plain.train, steps=12, batch_size=8, evaluate_every=6, checkpoint_every=6),
        log=Log(every=4, sample_tokens=0, peak_flops=1e11),
    )
    assert len(load(short).train) < 10 * 8
    for name, stops in (("whole", None), ("halves", 6), ("halves", None)):
        with monkeypatch.context() as patch:
            patch.setattr("txjax.train.loop.asked", lambda stop, step, every, at=stops: step == at)
            train_run(short, load(short), str(tmp_path / name), name="test", quiet=True)
    assert_same_checkpoint(tmp_path / "whole", tmp_path / "halves", 12)
    assert column(tmp_path / "whole", "val/loss") == column(tmp_path / "halves", "val/loss")
    assert "val/bits_per_byte" not in (tmp_path / "whole" / "metrics.jsonl").read_text()


def cut_short(text: str, folder: Path) -> str:
    path = folder / "short.txt"
    path.write_text(Path(text).read_text(encoding="utf-8")[:2300], encoding="utf-8")
    return str(path)
