"""Meshes, sharding rules, processes."""

from txjax.parallel.mesh import Layout, abstract_layout, check_batch, make_layout

__all__ = ["Layout", "abstract_layout", "check_batch", "make_layout"]
