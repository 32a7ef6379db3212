"""One's own text: a .txt, a .jsonl and a folder, Chinese and emoji among them, from training to samples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_run import column, config_of, session

from txjax.data.codec import load_codec

CHINESE = "今天天气很好，我们去公园散步。🙂🎉 明天也许会下雨☔，记得带伞。家人👩‍👩‍👧都好！\n"


@pytest.mark.slow
def test_a_text_a_jsonl_file_and_a_folder_are_trained_on_and_sampled_from(tmp_path: Path):
    own = tmp_path / "own"
    (own / "more").mkdir(parents=True)
    (own / "a.txt").write_text(CHINESE * 60, encoding="utf-8")
    lines = [json.dumps({"text": f"第{day}天：{CHINESE}"}, ensure_ascii=False) for day in range(80)]
    (own / "more" / "b.jsonl").write_text("\n".join(lines), encoding="utf-8")

    def train(source: Path) -> list[str]:
        flags = ("data.tokenizer=bpe", "data.tokenizer.bpe.vocab_size=300", "log.sample_tokens=5", "log.prompt=今天")
        workdir = f"--workdir={tmp_path / source.stem}-run"
        return [
            "train",
            config_of(tmp_path),
            f"--config.data.source={source}",
            workdir,
            *(f"--config.{f}" for f in flags),
        ]

    runs = [tmp_path / f"{name}-run" for name in ("a", "b", "own")]
    *trained, shown, evaluated, generated = session(
        train(own / "a.txt"),
        train(own / "more" / "b.jsonl"),
        train(own),
        ["data", "show", f"{own}"],
        ["eval", f"--workdir={runs[2]}"],
        ["generate", f"--workdir={runs[2]}", "--prompt=今天🙂", "--prompt=第1天", "--tokens=4", "--temperature=0"],
    )
    for ended, run in zip(trained, runs, strict=True):
        assert ended.code == 0, ended.err
        assert (run / "samples" / "20.txt").read_text(encoding="utf-8").startswith("今天")
        losses = list(column(run, "train/loss").values())
        assert losses[-1] < losses[0] - 1
        codec = load_codec(run / "tokenizer")
        assert codec.vocab_size == 300
        assert codec.decode(codec.encode(CHINESE)) == CHINESE
    assert (shown.code, evaluated.code) == (0, 0)
    (loss,), (tokens,) = (column(runs[2], name).values() for name in ("val/loss", "val/tokens"))
    assert f"val/loss             {loss:.4f}" in evaluated.out
    assert f"val/tokens           {int(tokens):,}" in evaluated.out
    (bits,) = column(runs[2], "val/bits_per_byte").values()
    assert bits < loss / np.log(2)  # a token stands for more than one byte
    first, one, second, two, *_ = generated.out.splitlines()
    assert (first, second) == ("--- 0", "--- 1")
    assert one.startswith("今天🙂") and two.startswith("第1天")
