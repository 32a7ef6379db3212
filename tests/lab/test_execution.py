"""txjax/lab/execution.py: which cells run again, and what a study's price is made of."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from txjax import presets
from txjax.config import Classes, Config, Data, Labelled, Log, Optim, Train
from txjax.data.sources.sort import Sort
from txjax.lab import Study, final
from txjax.lab.ablate import Options, Outcome, load_study, run_study
from txjax.lab.arms import resolve
from txjax.lab.cells import Cell, Result, report_cells
from txjax.lab.contrasts import source_of
from txjax.lab.execution import Execution, Silent, Way
from txjax.lab.populations import Populations
from txjax.train.stop import Stop

MEASURED = """
from txjax.config import Config
from txjax.lab import Prediction, Study, difference, final

FACTOR = 2.0
CALLS = []

def get_study():
    return Study(
        question="?", base=Config(), factors={"model.width": (64, 128)}, metric=final("size"), measure=measure,
        predictions=[Prediction("wider", difference(128, 64))],
    )

def measure(config, seed):
    CALLS.append(seed)
    return {"size": times(config.model.width) + seed}

def times(width):
    return FACTOR * width
"""


def run(folder: Path, text: str) -> tuple[Outcome, int]:
    """The study of this text, and how many cells were measured."""
    file = folder / "sizes.py"
    file.write_text(text)
    os.utime(file, ns=(0, hash(text) % 10**9 * 10**9))  # Python keeps what it compiled of a file by its time
    about = load_study(file)
    assert about.measure is not None
    outcome = run_study(about, file, folder / "out", Options(), Silent(), Stop())
    return outcome, len(about.measure.__globals__["CALLS"])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("old", "new"),
    [("+ seed}", "+ 2 * seed}"), ("FACTOR * width", "FACTOR + width"), ("FACTOR = 2.0", "FACTOR = 3.0")],
    ids=["the function itself", "one that it calls", "a constant"],
)
def test_cells_are_measured_again_once_what_measures_them_is_edited(tmp_path: Path, old: str, new: str):
    first, calls = run(tmp_path, MEASURED)
    assert calls == 16 and first.ledger.exploratory is None
    again, calls = run(tmp_path, MEASURED + "\n# a remark elsewhere\n")
    assert calls == 0 and again.verdicts == first.verdicts
    edited, calls = run(tmp_path, MEASURED.replace(old, new))
    assert calls == 16 and edited.verdicts[0].word == "estimate"
    assert "measured changed after the first run" in str(edited.ledger.exploratory)
    assert [row.values for row in edited.table] != [row.values for row in first.table]


def test_a_launch_that_fails_leaves_no_result_of_an_older_measure(tmp_path: Path):
    about = Study("?", Config(), {"model.width": (64, 128)}, [], measure=lambda config, seed: {"size": 1.0})

    def broken(_: int) -> None:
        raise RuntimeError("no")

    execution = Execution(about, tmp_path, Silent(), Stop(), launcher=broken)
    cells = report_cells(resolve(about, Config()), [{}, {}], [0])
    for cell in cells:
        (tmp_path / cell.id).mkdir()
        Result("finished", 0, 0.0, {"size": 7.0}, measured_by="another").save(tmp_path / cell.id)
    execution.run(cells, "report")
    assert [Result.load(tmp_path / cell.id).state for cell in cells] == ["failed"] * 2  # type: ignore[union-attr]


def test_the_text_of_a_function_has_what_of_its_file_it_uses():
    def inner(seed: int) -> Any:
        return run, [tuple(report_cells([], [], [])) for _ in range(seed)], MEASURED

    text = source_of(inner)
    assert text.startswith("def inner") and "def run(folder" in text and "MEASURED = " in text
    assert "def report_cells" not in text and text == source_of(inner)  # what another file says is its own


# ---------------------------------------------------------------- training

BASE = Config(
    model=presets.gpt2(width=16, num_layers=1, num_heads=2, context=16),
    data=Data(source=Sort(length=4, symbols=5, held_out=32)),
    optim=Optim(learning_rate=1e-2, clip=None),
    train=Train(steps=6, batch_size=8, evaluate_every=None, checkpoint_every=None),
    log=Log(every=1, sample_tokens=0, peak_flops=1e11),
)


def trained(folder: Path, way: Way, levels: tuple[float, ...]) -> tuple[Execution, list[Cell]]:
    about = Study("?", BASE, {"optim.learning_rate": levels}, [], metric=final("test/loss"))
    execution = Execution(about, folder / "cells", Silent(), Stop(), way=way)
    arms = resolve(about, BASE, execution.with_vocab)
    return execution, report_cells(arms, [{}] * len(arms), range(2))


def test_a_run_that_diverges_says_at_which_step(tmp_path: Path):
    """A rate of 1e30 makes the parameters so large that the next loss is not finite."""
    execution, cells = trained(tmp_path, "sequential", (1e30, 1e32))
    execution.run(cells[:1], "report")
    result = Result.load(tmp_path / "cells" / cells[0].id)
    rows = [json.loads(line) for line in (tmp_path / "cells" / cells[0].id / "metrics.jsonl").read_text().splitlines()]
    first = next(row["step"] for row in rows if row["train/skipped_steps"])
    assert result is not None and (result.state, result.steps) == ("diverged", first) and 1 <= first < 6


def test_a_population_is_priced_as_what_will_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    timed: list[list[str]] = []

    def seconds_a_step(_: Populations, wave: list[Cell]) -> tuple[float, float]:
        timed.append([cell.id for cell in wave])
        return 10.0, 2.0

    monkeypatch.setattr(Populations, "seconds_a_step", seconds_a_step)
    execution, cells = trained(tmp_path, "population", (1e-3, 1e-2))
    assert execution.price(cells) == (10.0, 2.0 * 6)  # four cells at once, and not one after another
    assert timed == [[cell.id for cell in cells]]
    assert not (tmp_path / "populations").exists() and not (tmp_path / "cells").exists()  # pricing leaves nothing


def test_cells_with_batches_of_several_widths_are_trained_alone(tmp_path: Path):
    """Each seed has its own order of widths, so that batches of two of them cannot be stacked."""
    table = tmp_path / "texts.tsv"
    table.write_text("text\tlabel\n" + "".join(f"{'a' * n}\t{'xy'[n % 2]}\n" for n in range(1, 41)))
    for buckets, together in ((1, 4), (3, 0)):
        base = replace(
            BASE,
            model=replace(BASE.model, causal=False, head=Classes(outputs=2), context=48),
            data=Data(source=Labelled(str(table), buckets=buckets)),
        )
        about = Study("?", base, {"optim.learning_rate": (1e-3, 1e-2)}, [], metric=final("val/loss"))
        execution = Execution(about, tmp_path / "cells", Silent(), Stop(), way="population")
        arms = resolve(about, base, execution.with_vocab)
        cells = report_cells(arms, [{}] * len(arms), range(2))
        waves, alone = Populations(execution).plan(cells)
        assert (sum(map(len, waves)), len(alone)) == (together, 4 - together)


def test_a_population_that_does_not_fit_is_priced_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def no_memory(*_: Any) -> Any:
        raise MemoryError("RESOURCE_EXHAUSTED: out of memory")

    monkeypatch.setattr(Populations, "seconds_a_step", no_memory)
    monkeypatch.setattr("txjax.lab.execution.seconds_a_step", lambda *_: (5.0, 0.5))
    execution, cells = trained(tmp_path, "population", (1e-3, 1e-2))
    assert execution.price(cells) == (5.0, 4 * 6 * 0.5)


def test_the_time_of_a_populations_step_is_that_of_the_step_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    execution, cells = trained(tmp_path, "population", (1e-3, 1e-2))
    compiling, step = Populations(execution).seconds_a_step(cells)
    assert compiling > 0 and step > 0
    execution.run(cells, "report")
    again, _ = Populations(execution).seconds_a_step(cells)
    assert again < compiling / 2  # the program that was timed is the one that ran
    assert [Result.load(tmp_path / "cells" / cell.id).state for cell in cells] == ["finished"] * 4  # type: ignore[union-attr]


def test_cells_one_after_another_are_priced_by_their_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("txjax.lab.execution.seconds_a_step", lambda *_: (5.0, 0.5))
    execution, cells = trained(tmp_path, "sequential", (1e-3, 1e-2))
    assert execution.price(cells) == (5.0, 4 * 6 * 0.5)
    assert execution.price(cells) == (0.0, 4 * 6 * 0.5)  # of another phase: compiled already
    (tmp_path / "cells" / cells[0].id).mkdir(parents=True)
    Result("finished", 6, 1.0).save(tmp_path / "cells" / cells[0].id)
    assert execution.price(cells) == (0.0, 3 * 6 * 0.5)
