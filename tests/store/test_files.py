from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txjax.store.files import StoreError, read_json, write_json, write_text

FullDisk = Callable[[int], AbstractContextManager[None]]


def test_text_comes_back_byte_for_byte(tmp_path: Path):
    text = "naïve 你好 🙂\r\nline\n\ttab"
    write_text(tmp_path / "a.txt", text)
    assert (tmp_path / "a.txt").read_bytes() == text.encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=25)
@given(JSON)
def test_json_comes_back(tmp_path_factory: pytest.TempPathFactory, data: object):
    path = tmp_path_factory.getbasetemp() / "data.json"
    write_json(path, data)
    assert read_json(path) == data


def test_a_number_that_json_does_not_have_is_refused_and_nothing_is_written(tmp_path: Path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, full_disk: FullDisk):
    path = tmp_path / "config.json"
    write_text(path, "old")
    with full_disk(4096), pytest.raises(StoreError, match=r"cannot write .*config.json: File too large"):
        write_text(path, "new" * 10_000)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["config.json"]


def test_until_the_new_file_is_whole_the_old_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "config.json"
    write_text(path, "old")
    seen: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *names: (seen.append(path.read_text()), replace(*names)))
    write_text(path, "new")
    assert (seen, path.read_text()) == (["old"], "new")


def test_a_rename_that_fails_leaves_the_old_file(tmp_path: Path):
    (tmp_path / "a.json").mkdir()
    with pytest.raises(StoreError, match=r"cannot write .*a.json: Is a directory"):
        write_text(tmp_path / "a.json", "new")
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_folder_that_is_not_there(tmp_path: Path):
    with pytest.raises(StoreError, match=r"cannot write .*gone/a.txt: No such file or directory"):
        write_text(tmp_path / "gone" / "a.txt", "text")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1,\n "b": ', "is no JSON: Expecting value in line 2, column 7"),
        (b"", "is no JSON: Expecting value in line 1, column 1"),
        (b"\xff\xfe", "cannot read"),
        (None, "cannot read .*: No such file or directory"),
    ],
)
def test_json_that_cannot_be_read_says_where(tmp_path: Path, content: bytes | None, message: str):
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(StoreError, match=message):
        read_json(tmp_path / "a.json")
