"""Tables of two arms, for the tests of what the lab makes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from txjax.lab.table import Row, Table

ARMS = ("pre", "post")


def two_arms(differences: Sequence[float], metric: str = "test/loss", base: float = 2.0, **facts: Any) -> Table:
    """post minus pre is `differences`, seed by seed; pre itself varies, as seeds do."""
    rows = []
    for seed, difference in enumerate(differences):
        pre = base + 0.1 * math.sin(5 * seed)
        rows += [row("pre", seed, pre, metric, facts=facts), row("post", seed, pre + difference, metric, facts=facts)]
    return Table(tuple(rows))


def row(arm: str, seed: int, value: float, metric: str = "test/loss", **more: Any) -> Row:
    return Row({"model.norm_placement": arm}, seed, {metric: value}, **more)


def replaced(table: Table, *rows: Row) -> Table:
    """The table with these rows in place of those of the same arm and seed."""
    new = {(r.levels["model.norm_placement"], r.seed): r for r in rows}
    return Table(tuple(new.get((r.levels["model.norm_placement"], r.seed), r) for r in table))
