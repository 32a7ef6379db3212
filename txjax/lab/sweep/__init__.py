"""Sweeps: many points of one config, each a run, in one folder and one table (docs/sweeps.md)."""

from txjax.lab.sweep.combinators import chain, grid, log_uniform, product, random, uniform, zip

__all__ = ["chain", "grid", "log_uniform", "product", "random", "uniform", "zip"]
