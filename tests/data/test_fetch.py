"""Downloads against a server on loopback that breaks off, lies, or cannot resume."""

from __future__ import annotations

import hashlib
import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from txjax.data import corpora
from txjax.data.fetch import FetchError, download, fetch
from txjax.schema import ConfigError

BODY = bytes(range(256)) * 40
SHA256 = hashlib.sha256(BODY).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves BODY by path: /whole, /ranged (honours Range), /short (breaks off), /other, /long; the rest is 404."""

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Range")))  # type: ignore[attr-defined]
        start = 0
        if self.path in ("/ranged", "/ranged_other") and "Range" in self.headers:
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        bodies = {"/other": BODY[::-1], "/ranged_other": BODY[::-1], "/long": BODY + b"more"}
        body = bodies.get(self.path, BODY)[start:]
        if self.path not in ("/whole", "/ranged", "/short", *bodies):
            self.send_error(404)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/short" else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def address(server: http.server.ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "corpus" / "file.bin"


def part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def half_done(path: Path) -> None:
    path.parent.mkdir(parents=True)
    part(path).write_bytes(BODY[: len(BODY) // 2])


def test_a_file_comes_whole_and_leaves_nothing_beside_it(address: str, path: Path):
    download(f"{address}/whole", path, len(BODY), SHA256)
    assert path.read_bytes() == BODY
    assert list(path.parent.iterdir()) == [path]


def test_half_a_file_is_resumed_from_its_end(address: str, server, path: Path):
    half_done(path)
    download(f"{address}/ranged", path, len(BODY), SHA256)
    assert path.read_bytes() == BODY
    assert server.asked == [("/ranged", f"bytes={len(BODY) // 2}-")]


def test_a_server_that_cannot_resume_sends_all_of_it_again(address: str, path: Path):
    half_done(path)
    download(f"{address}/whole", path, len(BODY), SHA256)
    assert path.read_bytes() == BODY


def test_a_body_that_breaks_off_is_kept_for_the_next_call(address: str, path: Path):
    with pytest.raises(FetchError, match=r"ended after 5,120 of 10,240 bytes: run the same command again"):
        download(f"{address}/short", path, len(BODY), SHA256)
    assert not path.exists() and part(path).read_bytes() == BODY[: len(BODY) // 2]
    download(f"{address}/ranged", path, len(BODY), SHA256)
    assert path.read_bytes() == BODY


@pytest.mark.parametrize("what", ["other", "long"])
def test_another_content_is_never_put_in_place(address: str, path: Path, what: str):
    with pytest.raises(FetchError, match="sha256"):
        download(f"{address}/{what}", path, len(BODY), SHA256)
    assert list(path.parent.iterdir()) == []


def test_a_wrong_beginning_does_not_stay_in_the_way(address: str, path: Path):
    path.parent.mkdir(parents=True)
    part(path).write_bytes(b"x" * 100)
    with pytest.raises(FetchError, match="sha256"):
        download(f"{address}/ranged", path, len(BODY), SHA256)
    download(f"{address}/ranged", path, len(BODY), SHA256)
    assert path.read_bytes() == BODY


def test_no_network_and_no_such_file_are_named(address: str, path: Path):
    with pytest.raises(FetchError, match="answered 404"):
        download(f"{address}/nothing", path, len(BODY), SHA256)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(FetchError, match=r"cannot be reached .* is there a network"):
        download(f"http://127.0.0.1:{port}/whole", path, len(BODY), SHA256)
    assert not path.exists()


def test_fetch_fills_the_cache_and_then_asks_no_more(address: str, server, tmp_path: Path, monkeypatch):
    toy = corpora.Corpus(
        "toy", "", "", "", (corpora.File("a.txt", len(BODY), SHA256, "http://unused.invalid"),), "a.txt"
    )
    monkeypatch.setitem(corpora.CORPORA, "toy", toy)
    monkeypatch.setenv("TXJAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TXJAX_DATA", str(tmp_path / "data"))
    with pytest.raises(ConfigError, match=r"run `txjax data fetch toy` \(10.2 kB\)"):
        corpora.locate("toy", "a.txt")

    said: list[str] = []
    for _ in range(2):
        (path,) = fetch("toy", said.append, {"a.txt": f"{address}/whole"})
    assert len(server.asked) == 1 and "already" in said[-1]
    assert corpora.locate("toy", "a.txt") == path == tmp_path / "cache" / "toy" / "a.txt"

    data = tmp_path / "data" / "toy" / "a.txt"  # TXJAX_DATA comes first, and is not believed either
    data.parent.mkdir(parents=True)
    data.write_bytes(BODY)
    assert corpora.locate("toy", "a.txt") == data
    data.write_bytes(BODY[::-1])
    with pytest.raises(ConfigError, match="is not the file that 'toy' is pinned to"):
        corpora.locate("toy", "a.txt")


def test_an_unknown_corpus_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'tinyshakespeare'"):
        fetch("tinyshakespear", print)


def test_every_corpus_here_has_the_pinned_content(corpora: Path):
    from txjax.data.corpora import CORPORA, locate

    for corpus in CORPORA.values():
        for file in corpus.files:
            if (corpora / corpus.name / file.name).exists():
                assert locate(corpus.name, file.name).stat().st_size == file.size
