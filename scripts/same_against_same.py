"""Twenty studies of nothing: both arms are the same model, on other orders of the data. How often is there a verdict?

  python scripts/same_against_same.py [--studies=20] [--out=experiments/same_against_same] [--workdir=DIR]

An honest lab says "reproduced" or "reversed" in 5 % of them at most: of 20, in 3 at most but for 1.6 % of the time
(binomial). A study whose arms differ in nothing that is computed has to say "identical". Stopped anywhere, the same
command goes on from there. About 12 minutes of one CPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scipy.stats import binom

from txjax.cli import prepare_process
from txjax.config import Config, Data, Optim, Train
from txjax.lab import Prediction, Study, difference, final
from txjax.lab.ablate import Options, run_study
from txjax.lab.execution import Silent
from txjax.lab.verdicts import Verdict
from txjax.models import presets
from txjax.store.provenance import processor, start
from txjax.train.stop import Stop
from txjax.view.effects import forest_plot

LEVEL = 0.05
BASE = Config(
    model=presets.gpt2(width=16, num_layers=1, num_heads=2, context=16, init="fan_in"),
    data=Data(source="python", tokenizer="bytes"),  # type: ignore[arg-type]
    optim=Optim(learning_rate=1e-2),
    train=Train(steps=60, batch_size=8, evaluate_every=None),
)


class Found(NamedTuple):
    """What a study came to, as a picture of intervals wants it."""

    prediction: str
    p: float
    label: str
    mean: float
    low: float
    high: float
    unit: str = "difference of the test loss, nats"
    margin: float | None = None


def study(factor: str, levels: tuple[Any, Any]) -> Study:
    return Study(
        question="Is a model better than itself?",
        base=BASE,
        factors={factor: levels},
        tuned={} if factor != "train.data_stream" else {"optim.learning_rate": (3e-3, 1e-2, 3e-2)},
        metric=final("test/loss"),
        predictions=[Prediction("one better than itself", difference(*levels))],
    )


def judge(name: str, one: Study, folder: Path) -> Verdict:
    outcome = run_study(one, Path(f"{name}.py"), folder / name, Options(anyway=True), Silent(), Stop())
    print(outcome.verdicts[0].line(name), flush=True)
    return outcome.verdicts[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("experiments/same_against_same"))
    parser.add_argument("--workdir", type=Path, default=Path("runs/same_against_same"))
    options = parser.parse_args()
    prepare_process()
    folder = options.workdir
    identical = judge("same data", study("train.keep_last", (1, 2)), folder)
    pairs = [(2 * k + 1, 2 * k + 2) for k in range(options.studies)]
    found = [judge(f"streams {a} and {b}", study("train.data_stream", (a, b)), folder) for a, b in pairs]
    wrong = sum(verdict.word in ("reproduced", "reversed") for verdict in found)
    most = int(binom.ppf(0.975, options.studies, LEVEL))
    facts = {
        "command": f"python scripts/same_against_same.py --studies={options.studies}",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "versions": start([])["versions"],
        "hardware": processor(),
        "same_data": identical.label,
        "verdicts": [{"p": v.p, "label": v.label, "mean": v.mean, "low": v.low, "high": v.high} for v in found],
        "wrong": wrong,
        "most_in_the_band": most,
    }
    write(facts, options.out)
    print(summary(facts))
    if wrong > most or identical.word != "identical":
        raise SystemExit(1)


def summary(facts: Mapping[str, Any]) -> str:
    return (
        f"{facts['wrong']} of {len(facts['verdicts'])} gave a verdict; the binomial band allows "
        f"{facts['most_in_the_band']}. Same data: {facts['same_data']}."
    )


def write(facts: Mapping[str, Any], folder: Path) -> None:
    """results.json, and what a reader looks at."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(facts, indent=2) + "\n")
    intervals = [Found(f"data streams {2 * k + 1} and {2 * k + 2}", **v) for k, v in enumerate(facts["verdicts"])]
    (folder / "verdicts.svg").write_text(forest_plot(intervals))
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    (folder / "README.md").write_text(f"""# The same against itself

How often does the lab find a difference where there is none? Each of {len(intervals)} studies compares a small model
with itself on another order of the training text, through the whole pipeline: 8 seeds, intervals, exact tests. One more
compares it with itself on the same order.

{summary(facts)}

An honest lab gives a verdict ("reproduced" or "reversed") in 5 % of such studies in the long run.

![Mean difference and 95 % interval of each study](verdicts.svg)

`{facts["command"]}` on {facts["hardware"]}, {facts["date"]}, {versions}.
""")


if __name__ == "__main__":
    main()
