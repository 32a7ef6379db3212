"""Write a study to edit, on your own text.

txjax new ablation norms --text=my_text.txt        writes experiments/norms/study.py
txjax new ablation norms --file=norms.py           or another file
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

ABLATION = '''"""{question}

txjax ablate {command}
"""

from txjax.config import Config, Data, Optim, Train
from txjax.lab import Prediction, Study, difference, final
from txjax.models import presets


def get_study() -> Study:
    return Study(
        question="{question}",
        base=Config(  # what all arms share; any field of it can be a factor
            model=presets.gpt2(width=64, num_layers=2, num_heads=2, context=64),
            data=Data(source={text!r}, tokenizer="bytes"),
            optim=Optim(learning_rate=3e-3),
            train=Train(steps=150, batch_size=16, evaluate_every=None),
        ),
        factors={{"model.norm_placement": ("pre", "post")}},  # what is asked about: a config path and its values
        tuned={{"optim.learning_rate": (1e-3, 3e-3, 1e-2)}},  # chosen for each arm, on seeds that are not reported
        tiers={{"smoke": {{"train.steps": 20}}}},  # --tier=smoke: does it run?
        metric=final("test/loss"),  # the one number that an arm is judged by
        predictions=[  # written before the first run, and registered by it
            Prediction("post is worse", difference("post", "pre"), margin=0.02),  # .02 nats: nobody would care
        ],
    )
'''
QUESTION = "Does a model learn worse with its norms after the residual connections?"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("ablation",))
    parser.add_argument("name", metavar="NAME", help="of the study, and of its folder")
    parser.add_argument("--file", type=Path, metavar="PATH", help="default experiments/NAME/study.py")
    parser.add_argument("--text", default="python", metavar="PATH", help="default: the interpreter's own documentation")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from txjax.cli import refuse
    from txjax.schema import ConfigError
    from txjax.store.files import write_text

    refuse(rest)
    if not options.name.isidentifier():
        raise ConfigError(f"NAME is a folder's, of letters, digits and underscores, got {options.name!r}")
    path = options.file or Path("experiments", options.name, "study.py")
    if path.exists():
        raise ConfigError(f"{path} is there already: choose another NAME, or another --file")
    command = path.parent if path.name == "study.py" else path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, ABLATION.format(question=QUESTION, command=command, text=options.text))
    print(f"study      {path}")
    print(f"try it     txjax ablate {command} --tier=smoke")
    print(f"run it     txjax ablate {command}")
    return 0
