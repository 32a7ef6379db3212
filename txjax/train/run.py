"""A whole training run in its folder: started or resumed, watched, saved, ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax

from txjax.config import Config
from txjax.data.dataset import Dataset
from txjax.data.pipeline import TrainBatches, evaluation_batches
from txjax.decode import Sampling, generate
from txjax.models import Model, build
from txjax.models.costs import count_parameters, train_flops_per_token
from txjax.parallel import check_batch, make_layout
from txjax.store import Run
from txjax.train.evaluate import Evaluation, evaluate
from txjax.train.hardware import peak_flops
from txjax.train.loop import Outcome, Patience, fit, to_devices
from txjax.train.meter import Interval, Meter
from txjax.train.optimizers import describe_groups
from txjax.train.programs import Programs
from txjax.train.progress import Reporter
from txjax.train.state import State


def train_run(
    config: Config, dataset: Dataset, workdir: str | None, *, name: str, quiet: bool = False
) -> tuple[Outcome, str]:
    """Train the config's model in a run folder, from where the folder has got to; returns how and where it ended.

    Raises ConfigError before anything is compiled where config, data, devices and folder do not fit together.
    """
    config = config.with_vocab(dataset.codec.vocab_size)
    layout = make_layout(config.mesh)
    check_batch(layout, config.train.batch_size, config.train.accumulation)
    model = build(config.model)
    batches = TrainBatches(
        dataset.train,
        batch_size=config.train.batch_size,
        seed=config.train.seed,
        shuffle=config.data.shuffle,
        process_index=jax.process_index(),
        process_count=jax.process_count(),
    )
    programs = Programs(config, model, layout)
    quiet = quiet or jax.process_index() > 0
    with Run.open(workdir, config, fingerprint=batches.fingerprint, name=name) as run, layout.scope():
        latest = run.saved.latest()
        with Reporter(config.train.steps, latest or 0, quiet=quiet) as report:
            introduce(report, run, config, model, dataset, programs)
            state = programs.initial_state() if latest is None else resume(run, latest, programs, batches, report)
            if latest is not None and latest == config.train.steps:
                report.say(f"step {latest} is the last: nothing is left to train")
                return Outcome(latest, "finished", None), str(run.folder)
            with (
                run.checkpoints(keep_last=config.train.keep_last) as writer,
                run.metrics(resume_step=latest) as metrics,
            ):
                watch = Watch(config, run, dataset, model, programs, writer, metrics, report)
                if latest is None:
                    dataset.codec.save(run.tokenizer)
                    watch.sample(0, state.params)
                outcome = watch.train(state, batches)
                return outcome, str(run.folder)


def introduce(report: Reporter, run: Run, config: Config, model: Model, dataset: Dataset, programs: Programs) -> None:
    """The lines that a run begins with."""
    devices = jax.devices()
    report.say(f"run        {run.folder}")
    report.say(
        f"model      {count_parameters(programs.state.params):,} parameters on {len(devices)} {devices[0].device_kind}"
    )
    report.say(f"train      {dataset.train.report}")
    report.say(f"validation {dataset.validation.report}")
    for line in describe_groups(config.optim, programs.state.params):
        report.say(f"optim      {line}")


def resume(run: Run, step: int, programs: Programs, batches: TrainBatches, report: Reporter) -> State:
    """The state of a checkpoint, and the batches set to go on from there."""
    shapes = programs.state
    saved = run.saved.restore(
        step,
        params=shapes.params,
        opt_state=shapes.opt_state,
        progress={"step": shapes.step, "key": shapes.key, "skipped": shapes.skipped, "in_a_row": shapes.in_a_row},
    )
    batches.set_state(saved.data)
    report.say(f"resumed from step {step}")
    return State(params=saved.params, opt_state=saved.opt_state, **saved.progress)


@dataclass
class Watch:
    """What is done around the steps: metrics, evaluation, samples, checkpoints."""

    config: Config
    run: Run
    dataset: Dataset
    model: Model
    programs: Programs
    writer: Any
    metrics: Any
    report: Reporter

    def train(self, state: State, batches: TrainBatches) -> Outcome:
        config = self.config
        position = batches.get_state()
        example = next(batches)
        batches.set_state(position)
        self.report.say("compiling the train step ...")
        program, seconds = self.programs.compile_train_step(example)
        self.report.say(f"compiled in {seconds:.1f} s")
        self.metrics.scalars(int(state.step), {"train/compile_seconds": seconds})
        meter = Meter(
            train_flops_per_token(self.model, config.context),
            config.log.peak_flops or peak_flops(),
            jax.device_count(),
        )
        return fit(
            config.train,
            config.log.every,
            state,
            self.programs.hyper,
            batches,
            program,
            self,
            meter,
            self.programs.layout.batch(),
            self.patience(),
        )

    def patience(self) -> Patience:
        """As it stood when the run was left."""
        patience = Patience(self.config.train.patience)
        for row in self.run.rows():
            if row.get("val/loss") is not None:
                patience.judge(row["val/loss"])
        return patience

    def stepped(self, step: int) -> None:
        self.report.advance(step)

    def measured(self, interval: Interval) -> None:
        self.metrics.scalars(interval.step, interval.figures)
        self.report.figures(interval.step, interval.figures)

    def evaluate(self, step: int, state: State) -> Evaluation:
        place = self.programs.layout.batch()
        size = evaluation_batch_size(self.config, self.programs.layout.batch_devices, len(self.dataset.validation))
        batches = evaluation_batches(
            self.dataset.validation,
            batch_size=size,
            process_index=jax.process_index(),
            process_count=jax.process_count(),
        )
        moved = (to_devices(batch, place) for batch in batches)
        result = evaluate(self.programs.evaluation_step, state.params, moved, self.programs.hyper.model)
        target_bytes = self.dataset.validation.target_bytes(self.dataset.codec)
        self.metrics.scalars(step, result.figures(target_bytes))
        self.report.say(f"step {step}  val/loss {result.loss:.4f} over {result.tokens:,} tokens")
        self.sample(step, state.params)
        return result

    def sample(self, step: int, params: Any) -> str | None:
        """A text by the model as it is now, into TensorBoard and samples/."""
        log, codec = self.config.log, self.dataset.codec
        if log.sample_tokens == 0:
            return None
        ids = generate(
            self.model,
            params,
            [codec.prompt(log.prompt).tolist()],
            tokens=log.sample_tokens,
            sampling=Sampling(temperature=log.temperature, end=codec.separator, limit=codec.vocab_size),
            seeds=[self.config.train.seed],
            context=self.config.model.context,
            past_context="slide",
        )
        text = log.prompt + codec.decode(ids[0])
        self.metrics.text(step, "sample", text)
        if jax.process_index() == 0:
            self.run.samples.mkdir(exist_ok=True)
            (self.run.samples / f"{step}.txt").write_text(text, encoding="utf-8")
        return text

    def save(self, step: int, state: State, data: dict[str, Any], evaluation: Evaluation | None) -> None:
        self.metrics.flush()
        self.writer.save(
            step,
            params=state.params,
            opt_state=state.opt_state,
            progress={"step": state.step, "key": state.key, "skipped": state.skipped, "in_a_row": state.in_a_row},
            data=data,
            metric=None if evaluation is None else evaluation.loss,
            meta={"config": self.config.digest()},
        )


def evaluation_batch_size(config: Config, devices: int, sequences: int) -> int:
    """train.evaluate_batch_size, or about 4096 tokens a device, never more than there is; a multiple of the devices."""
    wanted = config.train.evaluate_batch_size or max(1, 4096 // config.context) * devices
    return math.ceil(min(wanted, sequences) / devices) * devices
