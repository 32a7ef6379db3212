"""What is done around the steps of a run: metrics, evaluations, samples and checkpoints, into its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from txjax.config import Config
from txjax.data.dataset import Dataset
from txjax.decode import Sampling, generate
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

    def sample(self, step: int, params: Any) -> None:
        """A text by the model as it is now, into TensorBoard and samples/STEP.txt; none where its ids spell no text."""
        log, codec = self.config.log, self.dataset.codec
        if log.sample_tokens == 0 or not codec.spells or self.config.model.encoder is not None:
            return
        self.report.doing("sampling")
        ids = generate(
            self.programs.model,
            params,
            [codec.prompt(log.prompt).tolist()],
            tokens=log.sample_tokens,
            sampling=Sampling(temperature=log.temperature, end=codec.separator, limit=codec.vocab_size),
            seeds=[self.config.train.seed],
            context=self.config.model.memory,
            past_context="slide",
        )
        text = log.prompt + codec.decode(ids[0])
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
            metric=None if evaluation is None else evaluation.loss,
            meta={"config": self.config.digest()},
        )


def write_sample(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make {path.parent}: {reason(error)}") from error
    write_text(path, text)
