"""The course of a study: register, price, tune, run, judge, report. Killed anywhere, it goes on from what has ended."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from txjax.config import Config
from txjax.lab import boards, report, tuning
from txjax.lab.arms import Arm, base_config, resolve
from txjax.lab.cells import Cell, report_cells, table_of, tuning_cells
from txjax.lab.costcard import CostCard, arms_with_costs, predicted_minutes
from txjax.lab.execution import Execution, Silent, Watcher, Way
from txjax.lab.launch import launch, shuffled
from txjax.lab.ledger import Ledger, registered_seeds
from txjax.lab.power import Plan, outlooks, refuse_hopeless
from txjax.lab.readouts import refuse_unlogged
from txjax.lab.study import TRIAL_SEEDS, Study, Tier
from txjax.lab.table import Table
from txjax.lab.verdicts import Terms, Verdict, verdicts
from txjax.schema import ConfigError, flatten, nearest
from txjax.store.files import read_json, write_json
from txjax.store.lock import Lock
from txjax.train.stop import Stop

MINUTES: Mapping[Tier, float | None] = {"smoke": 5, "cpu": 15, "device": None, "paper": None}
FILE, MATCHED = "study.py", "matched.json"


@dataclass(frozen=True)
class Outcome:
    """What a study came to, and what a report draws."""

    study: Study
    name: str
    tier: Tier
    folder: Path
    arms: tuple[Arm, ...]
    card: CostCard
    table: Table
    choices: tuple[tuning.Choice, ...]
    verdicts: tuple[Verdict, ...]
    scope: str
    ledger: Ledger


@dataclass(frozen=True)
class Options:
    """seeds: instead of the tier's. explore: register nothing, judge nothing. anyway: however long it takes, and
    however little it can find. retry: run failed cells again. execution: one cell after another, or as populations.
    """

    tier: Tier = "cpu"
    seeds: int | None = None
    explore: bool = False
    anyway: bool = False
    retry: bool = False
    execution: Way = "auto"

    @property
    def judging(self) -> bool:
        """Whether verdicts are wanted, so that a study which cannot give any is refused."""
        return not (self.anyway or self.explore or self.tier == "smoke")


def load_study(folder: Path) -> Study:
    """The Study of experiments/NAME, or of a file with get_study()."""
    path = folder if folder.suffix == ".py" else folder / FILE
    if not path.is_file():
        beside = [p.name for p in folder.parent.iterdir()] if folder.parent.is_dir() else []
        raise ConfigError(f"there is no study {str(path)!r}{nearest(folder.name, beside)}")
    sys.path.insert(0, str(path.resolve().parent))  # a study may import its neighbours, not another's of the same name
    for neighbour in path.resolve().parent.glob("*.py"):
        sys.modules.pop(neighbour.stem, None)
    name = f"{path.resolve().parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        study = module.get_study() if hasattr(module, "get_study") else None
    except TypeError as error:  # an argument that is not there: the study's author misspelt it
        raise ConfigError(f"{path}: {error}") from None
    if not isinstance(study, Study):
        raise ConfigError(f"{path} needs a function get_study() that returns a txjax.lab.Study")
    return study


def ablate(file: Path, workdir: Path, options: Options, watcher: Watcher, stop: Stop) -> Outcome:
    """Run what is missing of a study, and judge it. Raises execution.Stopped where a signal asks for it."""
    return run_study(load_study(file), file, workdir, options, watcher, stop)


def run_study(study: Study, file: Path, workdir: Path, options: Options, watcher: Watcher, stop: Stop) -> Outcome:
    """`ablate` for a Study that is there. file: where it stands, or would."""
    workdir.mkdir(parents=True, exist_ok=True)
    lock = Lock(workdir)
    try:
        return _run(study, file, workdir, options, watcher, stop)
    finally:
        lock.release()


def _run(study: Study, file: Path, workdir: Path, options: Options, watcher: Watcher, stop: Stop) -> Outcome:
    folder = file.parent if file.suffix == ".py" else file
    if study.measure is None:
        refuse_unlogged(study.metrics)
    base = base_config(study, folder, options.tier)
    cells = workdir / "cells"
    launcher = (lambda seed: launch(file, options.tier, workdir, seed)) if study.launches else None
    execution = Execution(study, cells, watcher, stop, options.retry, launcher, options.execution)
    arms = resolve(study, base, execution.with_vocab, execution.seconds_a_step, matched_before(workdir, base))
    if study.matched is not None:
        knob = study.matched.by
        found = {arm.name: {knob: flatten(arm.config)[knob]} for arm in arms}
        write_json(workdir / MATCHED, {"base": base.digest(), "arms": found})
    count = options.seeds or study.seeds_of(options.tier)
    first = TRIAL_SEEDS if options.explore or options.tier == "smoke" else 0
    seeds = range(first, first + count)
    registered = registered_seeds(workdir)
    extended = study.looks == 2 and registered is not None and count == 2 * registered  # as was planned
    budget = {"seeds": registered if extended else count, "tier": options.tier, "base": base.digest()}
    registration = study.registration(budget)
    name = report.name_of(file)
    plan = Plan.of(study, registered if extended and registered else count)
    if registered is None and options.judging:
        plan.refuse_futile()
    planned = tuning_cells(study, arms, study.tuned) if study.tuned else []
    card = cost_card(study, arms, planned, seeds, execution, plan)
    for line in card.lines():
        watcher.say(line)
    if not options.anyway:
        card.refuse(MINUTES[options.tier])
    # not before: a study that is refused as too long may be changed as it is told to
    ledger = Ledger.open(workdir, {"name": name, "question": study.question}, registration, options.explore)
    choices, tuned = tune(study, arms, planned, execution, watcher) if study.tuned else ((), [])
    chosen = [choice.tuned for choice in choices] or [{} for _ in arms]
    reported = report_cells(arms, chosen, seeds)
    if choices:
        seen = outlooks(plan, study, table_of(tuned, execution.folder, study.metrics, {}), choices, options.tier)
        for outlook in seen:
            watcher.say(outlook.line(plan))
        if options.judging and len(execution.missing(reported)) == len(reported) and not ledger.data["looks"]:
            refuse_hopeless(plan, seen, ledger)
    execution.run(reported, "report")
    ledger.look(count)
    table = table_of([*tuned, *reported], execution.folder, study.metrics, facts_of(card))
    scope = scope_of(study, base, options.tier)
    judged = verdicts(table, study.predictions, study.metric, options.tier, terms_of(study, seeds, choices, ledger))
    outcome = Outcome(
        study, name, options.tier, workdir, tuple(arms), card, table, tuple(choices), tuple(judged), scope, ledger
    )
    report.write(outcome)
    boards.write(outcome)
    return outcome


def matched_before(workdir: Path, base: Config) -> dict[str, dict[str, int]]:
    """What matching found at an earlier start, by arm; nothing where the base has changed since."""
    path = workdir / MATCHED
    found: dict[str, Any] = read_json(path) if path.is_file() else {"base": None}
    return found["arms"] if found["base"] == base.digest() else {}


def measure_launch(file: Path, workdir: Path, tier: Tier, seed: int) -> None:
    """What the process of one launch does: measure the cells of its seed, all arms, and nothing else."""
    study = load_study(file)
    base = base_config(study, file.parent if file.suffix == ".py" else file, tier)
    arms = resolve(study, base, known=matched_before(workdir, base))
    mine = report_cells(arms, [{}] * len(arms), [seed])
    Execution(study, workdir / "cells", Silent(), Stop()).run(shuffled(mine, seed), "launch")


def cost_card(
    study: Study,
    arms: Sequence[Arm],
    planned: Sequence[Cell],
    seeds: Sequence[int],
    execution: Execution,
    plan: Plan,
) -> CostCard:
    """Prices every cell by a few steps of its program; the report's cells at the first values of what is tuned."""
    first = {path: values[0] for path, values in study.tuned.items()}
    phases = [planned, report_cells(arms, [first] * len(arms), seeds)]
    cells = [cell for phase in phases for cell in phase]
    missing = len(execution.missing(cells))
    costs = arms_with_costs(arms, study.measure is not None)
    if study.measure is not None:
        return CostCard(len(cells), missing, 0, None, costs, plan)
    minutes = predicted_minutes([execution.price(phase) for phase in phases])
    return CostCard(len(cells), missing, len(execution.programs), minutes, costs, plan)


def tune(
    study: Study, arms: Sequence[Arm], cells: Sequence[Cell], execution: Execution, watcher: Watcher
) -> tuple[list[tuning.Choice], list[Cell]]:
    """Choose each arm's nuisances, widening the grid where an optimum lies at its end."""
    tried = {path: sorted(values) for path, values in study.tuned.items()}
    while True:
        execution.run(cells, "tuning")
        choices = tuning.choose(table_of(cells, execution.folder, study.metrics, {}), study.chosen_by)
        more = tuning.extension(choices, study.tuned, tried)
        if not more:
            return choices, list(cells)
        for path, values in more.items():
            watcher.say(f"tuning     an arm's best {path} lies at the end of the grid: trying {values} for all arms")
            tried[path] = sorted({*tried[path], *values})
        cells = tuning_cells(study, arms, tried)


def terms_of(study: Study, seeds: Sequence[int], choices: Sequence[tuning.Choice], ledger: Ledger) -> Terms:
    return Terms(
        seeds=seeds,
        looks=study.looks,
        unsettled=tuning.unsettled(choices),
        exploratory=ledger.exploratory or "",
    )


def facts_of(card: CostCard) -> dict[str, dict[str, Any]]:
    return {
        arm.name: {"parameters": cost.parameters, "flops": cost.flops, "tokens": cost.tokens} for arm, cost in card.arms
    }


def scope_of(study: Study, base: Config, tier: Tier) -> str:
    """Over what the verdict speaks: the model, and of what is trained the data and how long."""
    model, source = base.model, base.data.source
    known = {"model.num_layers": f"{model.num_layers} layers", "model.width": f"d {model.width}"}
    if study.measure is None:
        known |= {
            "data.source": Path(str(getattr(source, "name", source.kind))).name,
            "train.steps": f"{base.train.steps} steps",
        }
    varied = {path for levels in study.arms for path in study.settings(levels)}
    setting = ", ".join(word for path, word in known.items() if path not in varied)
    tuned = [] if study.measure else ["tuned" if study.tuned else "untuned"]
    return " · ".join([setting, *tuned, f"tier {tier}"])
