"""What is done around the steps of a run: metrics, evaluations, samples and checkpoints, into its folder."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from txjax.batch import Batch
from txjax.config import Config
from txjax.data.dataset import Dataset
from txjax.data.pipeline import evaluation_batches
from txjax.decode import Sampling, generate
from txjax.probe import training
from txjax.store import Run
from txjax.store.checkpoints import CheckpointWriter
from txjax.store.files import StoreError, reason, write_text
from txjax.store.metrics import Metrics
from txjax.store.processes import on_first
from txjax.train.evaluate import Evaluation, evaluate_split
from txjax.train.meter import Interval
from txjax.train.programs import Programs
from txjax.train.progress import Reporter
from txjax.train.state import State

PROBED_TOKENS = 1024  # of the batch that probes are taken on: a captured attention weighs much


@dataclass
class Watch:
    """The Observer of a run. evaluated: told of each evaluation once it is noted; what it raises ends the run.
    once: figures that go with the first interval that is measured.
    """

    config: Config
    run: Run
    dataset: Dataset
    programs: Programs
    writer: CheckpointWriter
    metrics: Metrics
    report: Reporter
    evaluated: Callable[[int, Evaluation], None] | None = None
    once: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        training.refuse_unknown(self.config.log.probes)

    def stepped(self, step: int) -> None:
        self.report.advance(step)

    def measured(self, interval: Interval) -> None:
        self.metrics.scalars(interval.step, interval.figures | self.once)
        self.once = {}
        self.report.figures(interval.step, interval.figures)

    def evaluate(self, step: int, params: Any) -> Evaluation:
        self.report.doing("evaluating")
        result = evaluate_split(self.programs, params, self.dataset.validation)
        self.metrics.scalars(step, result.figures("validation", self.target_bytes))
        self.report.say(
            f"step {step}  val/loss {result.loss:.4f}  val/accuracy {result.accuracy:.4f} over {result.tokens:,} tokens"
        )
        self.report.doing("training")
        if self.evaluated is not None:
            self.evaluated(step, result)
        return result

    @cached_property
    def target_bytes(self) -> int:
        return self.dataset.validation.target_bytes(self.dataset.codec)

    @cached_property
    def source(self) -> list[int]:
        """What the encoder reads for the samples."""
        row = self.dataset.validation.gather(np.array([len(self.dataset.validation) // 2]))
        return row["source"][0][row["source_segments"][0] > 0].tolist()

    def probe(self, step: int, params: Any) -> None:
        """The figures of log.probes."""
        if self.config.log.probes:
            self.report.doing("probing")
            self.metrics.scalars(step, probed(self.programs, params, self.probed_batch))
            self.report.doing("training")

    @cached_property
    def probed_batch(self) -> Batch:
        """The same at every step, and in every run of the data."""
        rows = max(1, PROBED_TOKENS // self.config.context)
        devices = self.programs.layout.batch_devices
        size = math.ceil(min(rows, len(self.dataset.validation)) / devices) * devices
        mine, count = jax.process_index(), jax.process_count()
        batches = evaluation_batches(self.dataset.validation, batch_size=size, process_index=mine, process_count=count)
        return self.programs.to_devices(next(batches))

    def sample(self, step: int, params: Any) -> None:
        """A text by the model as it is now, into TensorBoard and samples/STEP.txt; none where its ids spell no text.
        Over an encoder it follows from a row of validation.
        """
        log, codec, model = self.config.log, self.dataset.codec, self.config.model
        if log.sample_tokens == 0 or not codec.spells or not model.generates:
            return
        self.report.doing("sampling")
        prompt = [*codec.start, *codec.encode(log.prompt)] if model.encoder else codec.prompt(log.prompt)
        ids = generate(
            self.programs.model,
            params,
            [list(map(int, prompt))],
            tokens=min(log.sample_tokens, model.context) if model.encoder else log.sample_tokens,
            sampling=Sampling(log.temperature, end=codec.separator, limit=codec.vocab_size, never=codec.unwritten),
            seeds=[self.config.train.seed],
            context=self.config.model.memory,
            past_context="error" if model.encoder else "slide",
            sources=[self.source] if model.encoder else None,
            source_limit=codec.reader.vocab_size,
        )
        text = log.prompt + codec.decode(ids[0])
        if model.encoder:
            text = f"{codec.reader.decode(self.source)} -> {text}"
        self.metrics.text(step, "sample", text)
        on_first(lambda: write_sample(self.run.samples / f"{step}.txt", text))
        self.report.doing("training")

    def save(self, step: int, state: State, data: dict[str, Any], evaluation: Evaluation | None) -> None:
        self.metrics.flush()
        self.writer.save(
            step,
            params=state.params,
            opt_state=state.opt_state,
            progress=state.progress,
            data=data,
            metric=None if evaluation is None else evaluation.shortfall(self.config.train.best_by),
            meta={"config": self.config.digest()},
        )


def probed(programs: Programs, params: Any, batch: Batch) -> dict[str, float]:
    """Each of log.probes in each layer, as metrics."""
    names = programs.config.log.probes

    def make() -> Any:
        def measure(params: Any, batch: Batch, knobs: Any) -> dict[str, Any]:
            return training.measure(names, programs.model, params, batch, knobs)

        return jax.jit(measure, out_shardings=programs.layout.replicated())

    measure = programs.once(("probes", names), make)
    return training.figures(jax.device_get(measure(params, batch, programs.hyper.model)))


def write_sample(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make {path.parent}: {reason(error)}") from error
    write_text(path, text)
