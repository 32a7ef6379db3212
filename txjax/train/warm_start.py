"""Starting a run from another run's parameters: those of the same path and shape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from txjax.nn.parameters import path_name
from txjax.schema import ConfigError, listed
from txjax.store import Run
from txjax.store.layout import read_meta
from txjax.store.leaves import describe
from txjax.train.state import State


@dataclass(frozen=True)
class WarmStart:
    """taken: paths of the parameters that come from `step` of `run`. lines: that, what starts anew, and what of the
    other run is left out.
    """

    run: Run
    step: int
    taken: frozenset[str]
    lines: tuple[str, ...]

    def of(self, state: State) -> State:
        """The state with those parameters; step, optimizer and random key stay those of a new run."""
        tree = self.run.saved.look(self.step)
        saved = {path_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}

        def put(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
            name = path_name(path)
            return jax.device_put(np.asarray(saved[name]), leaf.sharding) if name in self.taken else leaf

        return replace(state, params=jax.tree_util.tree_map_with_path(put, state.params))


def warm_start(folder: str, params: Any) -> WarmStart:
    """What the latest checkpoint of a run holds for parameters like these, arrays or shapes. ConfigError where the
    folder is no run, or nothing in it fits.
    """
    try:
        run = Run.read(folder)
        step = run.saved.find("latest")
    except ConfigError as error:
        raise ConfigError(f"train.init_from={folder!r}: {error}") from None
    saved, own = read_meta(run.saved.folder / str(step))["leaves"]["params"], describe(params)
    taken = frozenset(name for name in own if own[name] == saved.get(name))
    if not taken:
        raise ConfigError(
            f"train.init_from={folder!r}: none of its parameters ({listed(list(saved))}) has a path and shape of this "
            f"model's ({listed(list(own))}): choose a run of a model like it"
        )
    lines = [f"{len(taken)} of {len(own)} parameters are those of step {step} of {run.folder}"]
    for what, names in (
        ("new", [name for name in own if name not in saved]),
        ("new, of another shape there", [name for name in own if name in saved and name not in taken]),
        ("left there", [name for name in saved if name not in own]),
    ):
        if names:
            lines.append(f"{what}: {listed(names)}")
    return WarmStart(run, step, taken, tuple(lines))
