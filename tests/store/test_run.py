from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest

from txjax.config import Config, Log, Mesh, Model, Train
from txjax.schema import ConfigError, flatten
from txjax.store import Run, StoreError
from txjax.store.provenance import code_version
from txjax.store.run import MAY_CHANGE

CONFIG = Config(model=Model(width=64), train=Train(steps=20, seed=7))


def opened(folder: Path, config: Config = CONFIG, fingerprint: Any = "sha256:1") -> Run:
    return Run.open(folder, config, fingerprint=fingerprint)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- a new one


@pytest.mark.bug("alex-petrenko/sample-factory#32")
def test_a_new_folder_says_what_the_run_is_and_on_what_it_runs(tmp_path: Path):
    with Run.open(tmp_path / "a" / "b", CONFIG, fingerprint={"text": "1"}, command=["txjax", "train"]) as run:
        assert not run.resumed
        assert Run.read(run.folder).config == CONFIG
        info = run.info
    assert info["data"] == {"text": "1"}
    assert info["seeds"] == {"train.seed": 7}
    (start,) = info["starts"]
    assert start["command"] == ["txjax", "train"]
    assert start["versions"]["jax"] == jax.__version__
    assert start["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert start["devices"].pop("processor").endswith(" cores")
    assert start["devices"] == {"platform": "cpu", "kind": "cpu", "count": jax.device_count(), "processes": 1}


def test_without_a_folder_each_start_gets_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    runs = [Run.open(None, CONFIG, fingerprint=1, name="shakespeare") for _ in range(3)]
    assert len({run.folder for run in runs}) == 3
    assert all(run.folder.parent == tmp_path / "runs" and run.folder.name.startswith("shakespeare-") for run in runs)
    for run in runs:
        run.close()


@pytest.mark.parametrize("reason", ["a file stands there", "no such place", "something else lies there"])
def test_a_place_that_will_not_do_is_one_clear_sentence(tmp_path: Path, reason: str):
    folder = tmp_path / "here"
    if reason == "a file stands there":
        folder.write_text("")
        message = r"--workdir: .*here is a file: give a folder"
    elif reason == "no such place":
        folder = Path("/proc/nowhere/run")
        message = r"cannot make the folder /proc/nowhere/run: .*: give another --workdir"
    else:
        folder.mkdir()
        (folder / "thesis.tex").write_text("")
        message = r"--workdir: .*here is no run, it has no config.json but holds thesis.tex: give an empty folder"
    with pytest.raises(ConfigError, match=message) as error:
        opened(folder)
    assert "\n" not in str(error.value)
    assert not (folder / ".lock").exists()


def test_a_start_that_was_killed_before_the_config_is_begun_anew(tmp_path: Path):
    opened(tmp_path, CONFIG, fingerprint="old").close()
    (tmp_path / "config.json").rename(tmp_path / ".config.json.123.tmp")
    with opened(tmp_path, fingerprint="new") as run:
        assert not run.resumed
        assert run.info["data"] == "new"
        assert len(run.info["starts"]) == 1


# ---------------------------------------------------------------- again


def test_the_same_config_resumes(tmp_path: Path):
    opened(tmp_path, fingerprint=("a", 1)).close()
    with opened(tmp_path, fingerprint=("a", 1)) as run:
        assert run.resumed
        assert [start["changed"] for start in run.info["starts"][1:]] == [{}]


@pytest.mark.bug("ray-project/ray#30584", "google/flax#1120", "T029", "official-stockfish/nnue-pytorch#200")
def test_another_config_is_refused_leaf_by_leaf_and_changes_nothing(tmp_path: Path):
    opened(tmp_path).close()
    before = contents(tmp_path)
    other = replace(CONFIG, model=replace(CONFIG.model, width=128, logit_softcap=30.0), log=Log(every=5))
    with pytest.raises(ConfigError) as error:
        opened(tmp_path, other)
    assert str(error.value).splitlines() == [
        f"{tmp_path} holds a run of another config:",
        "  model.logit_softcap: none -> 30.0",
        "  model.width: 64 -> 128",
        "use another --workdir, or set these back to resume it",
    ]
    assert contents(tmp_path) == before
    opened(tmp_path).close()  # the lock is free again


def test_more_steps_are_another_experiment(tmp_path: Path):
    opened(tmp_path).close()
    with pytest.raises(ConfigError, match=r"train.steps: 20 -> 40"):
        opened(tmp_path, replace(CONFIG, train=replace(CONFIG.train, steps=40)))


def test_what_may_change_changes_and_is_recorded(tmp_path: Path):
    opened(tmp_path).close()
    other = Config(
        model=CONFIG.model,
        train=replace(CONFIG.train, checkpoint_every=3, keep_last=5, loss_chunk=64, evaluate_batch_size=4),
        mesh=Mesh(fsdp=2),
        log=Log(every=5),
    )
    with opened(tmp_path, other) as run:
        assert run.resumed
        assert Run.read(tmp_path).config == other
        changed = run.info["starts"][-1]["changed"]
    assert changed["mesh.fsdp"] == [1, 2]
    assert {name for name in MAY_CHANGE if any(leaf.startswith(name) for leaf in changed)} == set(MAY_CHANGE)


def test_every_field_that_may_change_is_one():
    leaves = flatten(CONFIG)
    for name in MAY_CHANGE:
        assert name in leaves or any(leaf.startswith(f"{name}.") for leaf in leaves), name


def test_other_data_is_refused(tmp_path: Path):
    opened(tmp_path, fingerprint={"text": "1"}).close()
    with pytest.raises(ConfigError, match=r"was trained on other data, .*'1'.* -> .*'2'.*: put the data back"):
        opened(tmp_path, fingerprint={"text": "2"})


# ---------------------------------------------------------------- two at once

HOLDER = "import sys, pathlib, time; from txjax.store.lock import Lock; lock = Lock(pathlib.Path(sys.argv[1])); "


@pytest.mark.bug("TeamHG-Memex/tensorboard_logger#21")
def test_a_folder_in_use_is_refused_by_pid_and_a_kill_frees_it(tmp_path: Path):
    opened(tmp_path).close()
    command = [sys.executable, "-c", HOLDER + "print('held', flush=True); time.sleep(600)", str(tmp_path)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=rf"is in use by process {holder.pid} on .*: wait for it or stop it"):
            opened(tmp_path)
    finally:
        holder.kill()
        holder.wait()
    assert opened(tmp_path).resumed


@pytest.mark.bug("TeamHG-Memex/tensorboard_logger#21")
def test_the_same_process_does_not_get_it_twice_either(tmp_path: Path):
    with opened(tmp_path), pytest.raises(ConfigError, match=f"is in use by process {os.getpid()} on"):
        opened(tmp_path)
    opened(tmp_path).close()


# ---------------------------------------------------------------- only to look


def test_a_run_can_be_looked_at_while_it_is_written(tmp_path: Path):
    with opened(tmp_path) as run:
        with run.metrics(resume_step=None) as metrics:
            metrics.scalars(1, {"train/loss": 2.5})
        before = contents(tmp_path)
        seen = Run.read(tmp_path)
        assert seen.config == CONFIG
        assert seen.rows() == [{"step": 1, "train/loss": 2.5}]
        assert seen.saved.latest() is None
        for write in (lambda: seen.metrics(resume_step=None), lambda: seen.checkpoints(keep_last=1)):
            with pytest.raises(StoreError, match="is open to read only"):
                write()
        assert contents(tmp_path) == before


def test_what_is_no_run_says_so(tmp_path: Path):
    opened(tmp_path / "shakespeare").close()
    with pytest.raises(ConfigError, match=r"there is no folder .*shakespear, did you mean 'shakespeare'"):
        Run.read(tmp_path / "shakespear")
    with pytest.raises(ConfigError, match=r"is no run, it has no config.json"):
        Run.read(tmp_path)


@pytest.mark.parametrize("open_it", [Run.read, opened])
def test_a_config_that_cannot_be_read_is_named(tmp_path: Path, open_it: Any):
    opened(tmp_path).close()
    text = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(text[: len(text) // 2])
    with pytest.raises(StoreError, match=r"config.json is no JSON: "):
        open_it(tmp_path)
    config = json.loads(text)
    config["model"]["wdith"] = config["model"].pop("width")
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=r"config.json is not of this version: model.wdith is not a field"):
        open_it(tmp_path)


# ---------------------------------------------------------------- the code


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_code_version_is_the_commit_and_whether_the_package_differs_from_it(tmp_path: Path):
    package = tmp_path / "pytest"  # any distribution that is installed
    package.mkdir()
    (package / "code.py").write_text("1")
    expected: dict[str, Any] = {"version": pytest.__version__, "commit": None, "dirty": None}
    assert code_version(package) == expected
    git(tmp_path, "init", "-q")
    assert code_version(package) == expected  # around it, but not of it
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    expected |= {"commit": git(tmp_path, "rev-parse", "HEAD"), "dirty": False}
    assert code_version(package) == expected
    (tmp_path / "notes.txt").write_text("outside of the package")
    assert code_version(package) == expected
    (package / "new.py").write_text("not added yet, and imported all the same")
    assert code_version(package) == expected | {"dirty": True}
