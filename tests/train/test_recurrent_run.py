"""A recurrent language model is trained, stopped, resumed and sampled by what trains a Transformer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_run import column, end, rows_in, start, txjax, until

from txjax import api

CONFIG = """
from txjax.config import Config, Data, Log, Optim, Train
from txjax.models import presets


def get_config():
    return Config(
        model=presets.lstm(width=96, num_layers=1, context=32),
        data=Data(source="python", tokenizer="bytes", validation=0.02),
        optim=Optim(learning_rate=1e-2, weight_decay=0.0),
        train=Train(steps=300, batch_size=16, evaluate_every=None, evaluate_batch_size=64, checkpoint_every=None),
        log=Log(every=20, sample_tokens=0, peak_flops=1e11),
    )
"""


def unigram_entropy(text: bytes) -> float:
    """In nats a byte: the loss of a model that knows how frequent each byte is, and nothing else."""
    shares = np.bincount(np.frombuffer(text, np.uint8)) / len(text)
    return float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())


@pytest.mark.long
def test_an_lstm_learns_more_than_frequencies_and_goes_on_where_it_stopped(tmp_path: Path):
    (tmp_path / "lstm.py").write_text(CONFIG)
    command = ["train", f"--config={tmp_path / 'lstm.py'}", f"--workdir={tmp_path / 'run'}"]
    running = start(*command)
    until(lambda: rows_in(tmp_path / "run") > 0, running)
    running.terminate()
    assert end(running).code == 75  # saved and stopped
    resumed = txjax(*command)
    assert resumed.code == 0, resumed.err
    assert "resumed from step" in resumed.out
    run = api.load(tmp_path / "run")
    text = "".join(run.config.data.source.documents("validation", run.config.data))
    assert column(tmp_path / "run", "val/loss")[300] < unigram_entropy(text.encode()) - 0.7
    one, other = api.generate(run, ["The ", "def "], tokens=60, seed=1)  # twice the context
    assert one.startswith("The ") and len(one) > 40
    assert [one] == api.generate(run, ["The "], tokens=60, seed=1)  # with another prompt as alone
    assert other.startswith("def ")
