"""A whole training run in its folder: started or resumed, watched, saved, ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from txjax.batch import Batch
from txjax.config import Config
from txjax.data.dataset import Dataset
from txjax.data.pipeline import TrainBatches
from txjax.models import build
from txjax.models.costs import count_parameters
from txjax.parallel import check_batch, make_layout
from txjax.store import Run
from txjax.store.processes import on_first
from txjax.train.evaluate import Evaluation, shortfall
from txjax.train.hardware import peak_flops
from txjax.train.loop import Outcome, Patience, TakeStep, fit
from txjax.train.meter import Meter
from txjax.train.optimizers import describe_groups
from txjax.train.programs import Programs
from txjax.train.progress import Reporter
from txjax.train.state import State
from txjax.train.step import StepMetrics
from txjax.train.stop import Stop, graceful_stop
from txjax.train.tracing import traced
from txjax.train.warm_start import warm_start
from txjax.train.watch import Watch


def train_run(
    config: Config, dataset: Dataset, workdir: str | None, *, name: str, quiet: bool = False
) -> tuple[Outcome, str]:
    """Train the config's model in a run folder, from where the folder has got to; returns how and where it ended.

    Raises ConfigError before anything is compiled where config, data, devices and folder do not fit together, and
    before the folder is made where it is not the folder's fault.
    """
    config = config.with_vocab(*dataset.codec.sizes)
    layout = make_layout(config.mesh)
    check_batch(layout, config.train.batch_size, config.train.accumulation)
    programs = Programs(config, build(config.model), layout)
    batches = new_batches(config, dataset)
    quiet = quiet or jax.process_index() > 0
    with graceful_stop() as stop, layout.scope():
        programs.check()
        if config.train.init_from is not None:  # refused before there is a folder
            warm_start(config.train.init_from, config.model, programs.state.params)
        with (
            Run.open(workdir, config, fingerprint=batches.fingerprint, name=name) as run,
            Reporter(config.train.steps, quiet=quiet) as report,
        ):
            introduce(report, run, dataset, programs)
            return train_in(run, dataset, programs, batches, report, stop), str(run.folder)


def new_batches(config: Config, dataset: Dataset) -> TrainBatches:
    """This process's share of the training batches, from the first."""
    return TrainBatches(
        dataset.train,
        batch_size=config.train.batch_size,
        seed=config.train.seed + (config.train.data_stream << 32),
        shuffle=config.data.shuffle,
        process_index=jax.process_index(),
        process_count=jax.process_count(),
    )


def introduce(report: Reporter, run: Run, dataset: Dataset, programs: Programs) -> None:
    """The lines that a run begins with."""
    devices, params = jax.devices(), programs.state.params
    report.say(f"run        {run.folder}")
    report.say(f"model      {count_parameters(params):,} parameters on {len(devices)} {devices[0].device_kind}")
    report.say(f"train      {dataset.train.report}")
    report.say(f"validation {dataset.validation.report}")
    for line in describe_groups(programs.config.optim, programs.config.model, params):
        report.say(f"optim      {line}")


def train_in(
    run: Run,
    dataset: Dataset,
    programs: Programs,
    batches: TrainBatches,
    report: Reporter,
    stop: Stop,
    evaluated: Callable[[int, Evaluation], None] | None = None,
) -> Outcome:
    """Start or resume the run, and train to its end. evaluated: told of each evaluation."""
    config, latest = programs.config, run.saved.latest()
    patience = patience_of(run, latest)
    if latest is not None:
        report.say(f"resumed from step {latest}")
        report.advance(latest)
    if latest == config.train.steps or patience.over:
        report.say("nothing is left to train")
        return Outcome(latest or 0, "finished" if latest == config.train.steps else "patience")
    state = begin(programs, report) if latest is None else resume(run, latest, programs, batches)
    with run.checkpoints(keep_last=config.train.keep_last) as writer, run.metrics(resume_step=latest) as metrics:
        watch = Watch(config, run, dataset, programs, writer, metrics, report, evaluated)
        take_step = compiled(programs, batches, watch)
        if latest is None:
            on_first(lambda: dataset.codec.save(run.tokenizer))
            watch.sample(0, state.params)
            watch.probe(0, state.params)
        meter = Meter(
            programs.flops_per_token,
            config.log.peak_flops or peak_flops(),
            jax.device_count(),
        )
        with traced(take_step, latest or 0, config.log.profile, run.tensorboard) as take_step:
            return fit(config.train, config.log, state, batches, take_step, watch, meter, patience, stop)


def patience_of(run: Run, latest: int | None) -> Patience:
    """As it stood at the latest checkpoint."""
    train = run.config.train
    patience = Patience(train.patience)
    figure = f"val/{train.best_by}"
    rows = [row for row in run.rows() if row["step"] <= (latest or 0) and figure in row]
    patience.judge(shortfall(train.best_by, row[figure]) for row in rows)
    return patience


def begin(programs: Programs, report: Reporter) -> State:
    """The state of a new run."""
    folder = programs.config.train.init_from
    if folder is None:
        return programs.initial_state()
    start = warm_start(folder, programs.config.model, programs.state.params)
    for line in start.lines:
        report.say(f"init       {line}")
    return start.of(programs.initial_state())


def resume(run: Run, step: int, programs: Programs, batches: TrainBatches) -> State:
    """The state of a checkpoint, and the batches set to go on from there."""
    shapes = programs.state
    saved = run.saved.restore(step, params=shapes.params, opt_state=shapes.opt_state, progress=shapes.progress)
    batches.set_state(saved.data)
    return State(params=saved.params, opt_state=saved.opt_state, **saved.progress)


def last_parameters(run: Run, programs: Programs) -> Any:
    """The parameters of the run's last checkpoint, laid out as the programs want them."""
    return run.saved.restore(run.saved.find("latest"), params=programs.state.params).params


def compiled(programs: Programs, batches: TrainBatches, watch: Watch) -> TakeStep:
    """The compiled train step, on host batches; those of another shape compile theirs when the first comes."""
    made: dict[Any, Any] = {}

    def program(batch: Batch) -> Any:
        shape = batch.tokens.shape
        if shape not in made:
            watch.report.doing("compiling")
            watch.report.say("compiling the train step ..." if not made else f"compiling for batches of {shape} ...")
            made[shape], seconds = programs.compile_train_step(batch)
            watch.report.say(f"compiled in {seconds:.1f} s")
            watch.report.doing("training")
            watch.once["train/compile_seconds"] = watch.once.get("train/compile_seconds", 0.0) + seconds
        return made[shape]

    def take_step(state: State, batch: Batch) -> tuple[State, StepMetrics]:
        return program(batch)(state, programs.to_devices(batch), programs.hyper)

    position = batches.get_state()
    program(next(batches))
    batches.set_state(position)
    return take_step
