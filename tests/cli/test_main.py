"""The command line before anything runs: help, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_run import PROJECT, config_of, end, python, session, txjax

from txjax.cli import COMMANDS, main

LIGHT = """
import sys
from txjax.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
heavy = [name for name in ("jax", "numpy", "flax", "ml_collections", "rich") if name in sys.modules]
print("imported:", *heavy)
"""


@pytest.mark.parametrize("words", [["--help"], [], *[[name, "--help"] for name in COMMANDS]], ids=" ".join)
def test_help_imports_nothing_that_takes_time(words: list[str]):
    done = subprocess.run([sys.executable, "-c", LIGHT, *words], cwd=PROJECT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].strip() == "imported:", done.stderr
    assert "usage: txjax" in done.stdout


def test_help_lists_every_command_and_every_command_has_its_file():
    assert sorted(COMMANDS) == sorted(
        path.stem for path in (PROJECT / "txjax" / "cli").glob("*.py") if "def add_options" in path.read_text()
    )


@pytest.mark.bug("unslothai/unsloth#10452", "pfnet/pytorch-pfn-extras#302")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config.train.stepz=3"], "train.stepz is not a field, did you mean 'steps'?"),
        (["--config.trian.steps=3"], "trian is not a field, did you mean 'train'?"),
        (["--config.train.steps=many"], "train.steps must be int, got 'many'"),
        (["--config.model.position=rop"], "model.position must be one of"),
        (["--config.model.width=17"], "model.attention.num_heads must divide width=17"),
        (["--config.data.context=64"], "data.context=64 runs past the model's position table of 16"),
        (["--workdri=here"], "--workdri is not an option, did you mean '--workdir'?"),
        (["nonsense"], "'nonsense' is not a flag"),
        (["--workdir=/proc/nowhere"], "cannot make the folder /proc/nowhere"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2_before_anything_compiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
):
    assert main(["train", config_of(tmp_path), *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"txjax train: {said}")
    assert err.count("\n") == 1


def test_the_same_from_a_real_process(tmp_path: Path):
    ended = txjax("train", config_of(tmp_path), "--config.train.stepz=3")
    assert ended == (2, "", "txjax train: train.stepz is not a field, did you mean 'steps'?\n")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("--config=nothere.py", "--config: there is no file 'nothere.py'"),
        (f"--config={__file__}", f"--config: {__file__} has no get_config() function"),
    ],
)
def test_a_config_file_that_is_none(capsys: pytest.CaptureFixture[str], config: str, said: str):
    assert main(["train", config]) == 2
    assert capsys.readouterr().err.startswith(f"txjax train: {said}")


def test_options_and_words_that_a_command_does_not_know(capsys: pytest.CaptureFixture[str]):
    assert main(["eval", "--workdir=x", "--stp=3"]) == 2
    assert capsys.readouterr().err == "txjax eval: --stp is not an option, did you mean '--step'?\n"
    assert main(["eval", "--workdir=x", "--config.train.steps=3"]) == 2
    assert "is not an option of this command" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["trian"])
    assert ended.value.code == 2


def test_a_bug_is_a_traceback_and_a_code_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "broken.py").write_text("def get_config():\n    return 1 / 0\n")
    assert main(["train", f"--config={tmp_path / 'broken.py'}"]) == 70
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.bug("jax-ml/jax#25768", "climate-analytics-lab/jax-gcm#592")
def test_a_second_start_takes_its_programs_from_the_compile_cache(tmp_path: Path):
    """Nothing is added to the cache by the same run, nor by one with other traced numbers."""
    cache = tmp_path / "cache"
    config = config_of(tmp_path)
    first, again, other = (
        ["train", config, f"--workdir={tmp_path / str(number)}", "--config.train.steps=2", *flags]
        for number, flags in enumerate(([], [], ["--config.optim.learning_rate=2e-3", "--config.train.seed=1"]))
    )
    counts = []
    for commands in ([first], [again, other]):
        for ended in session(*commands, JAX_COMPILATION_CACHE_DIR="", TXJAX_CACHE=str(cache)):
            assert ended.code == 0, ended.err
        counts.append(len(list((cache / "xla").glob("*-cache"))))
    assert counts[0] > 5
    assert counts[0] == counts[1]


def test_importing_txjax_is_quick_and_its_api_is_there_when_used():
    code = "import sys, txjax; print(sorted(txjax.__all__), 'jax' in sys.modules); txjax.load, txjax.presets"
    ended = end(python("-c", code))
    assert ended == (0, "['embed', 'generate', 'load', 'logits', 'ops', 'presets', 'translate'] False\n", "")
