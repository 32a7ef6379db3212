"""What the command line sets before jax is imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from txjax.cli import thread_small_loops

MINE = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=0"

LOOP = """
import jax
import jax.numpy as jnp
body = lambda i, x: jnp.tanh(x @ jnp.ones((8, 8)))
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 9, body, x))
print("xla_cpu_small_call" in loop.lower(jnp.ones(8)).compile().as_text())
"""


@pytest.mark.parametrize(
    ("flags", "after"),
    [
        ("", MINE),
        ("--xla_dump_to=x", f"--xla_dump_to=x {MINE}"),
        ("--xla_backend_extra_options=y=1", "--xla_backend_extra_options=y=1"),  # the user's own
    ],
)
def test_flags_of_the_user_stay(flags: str, after: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XLA_FLAGS", flags)
    thread_small_loops()
    assert os.environ["XLA_FLAGS"] == after


@pytest.mark.parametrize("before", ["", "from txjax.cli import thread_small_loops; thread_small_loops()"])
def test_a_loop_is_no_longer_one_function(before: str):
    """And without the call it is one: should XLA ever judge a loop by its body, the call can go."""
    environment = os.environ | {"XLA_FLAGS": ""}
    done = subprocess.run([sys.executable, "-c", before + LOOP], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == str(not before), done.stderr
