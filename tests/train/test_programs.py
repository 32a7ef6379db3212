"""One compiled program serves all configs that differ only in what it does not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from txjax.config import Config
from txjax.train.programs import program_key


@pytest.mark.parametrize(
    ("field", "value", "same"),
    [
        ("seed", 5, True),
        ("best_by", "accuracy", True),
        ("patience", 3, True),
        ("keep_last", 9, True),
        ("label_smoothing", 0.1, False),
        ("steps", 7, False),
        ("batch_size", 4, False),
    ],
)
def test_what_the_host_alone_reads_of_train_makes_no_other_program(field: str, value: Any, same: bool):
    config = Config()
    other = replace(config, train=replace(config.train, **{field: value}))
    assert (program_key(other) == program_key(config)) is same
