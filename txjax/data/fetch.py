"""Downloads of named corpora: resumed where they broke off, checked, and put in place only when whole."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from txjax.data.corpora import cache, find, in_bytes

TIMEOUT_S = 30.0
PIECE = 1 << 20


class FetchError(Exception):
    """A download that failed: one sentence with the file, the reason and what to do."""


def fetch(name: str, say: Callable[[str], None], urls: Mapping[str, str] | None = None) -> list[Path]:
    """Bring the files of a corpus into the cache and return their paths; a file that is there and whole is kept.

    urls: other addresses by file name, for instance a mirror; the content must still have the pinned sha256.
    say: called with a line for each file before it is downloaded.
    Raises FetchError. What was received of a file stays beside it as FILE.part, and the next call goes on from there.
    """
    corpus = find(name)
    paths = []
    for file in corpus.files:
        path = cache() / corpus.name / file.name
        if path.is_file() and path.stat().st_size == file.size and _sha256(path) == file.sha256:
            say(f"{corpus.name}/{file.name}: already here")
        else:
            url = (urls or {}).get(file.name, file.url)
            if url is None:
                raise FetchError(
                    f"{corpus.name}/{file.name} is served at no address that is known here: get it from "
                    f"{corpus.source}, and set TXJAX_DATA to a folder that holds it"
                )
            say(f"{corpus.name}/{file.name}: {in_bytes(file.size)} from {url}")
            download(url, path, file.size, file.sha256)
        paths.append(path)
    return paths


def download(url: str, path: Path, size: int, sha256: str) -> None:
    """Put at `path` the file that `url` serves, if it has this size and sha256; raise FetchError if not."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if part.exists() and part.stat().st_size > size:
            part.unlink()
        _receive(url, part, size)
        if part.stat().st_size < size:
            got, whole = part.stat().st_size, f"{size:,} bytes"
            raise FetchError(f"{url} ended after {got:,} of {whole}: run the same command again to go on from there")
        actual = _sha256(part)
        if actual != sha256:
            part.unlink()
            raise FetchError(f"{url} has sha256 {actual}, not {sha256}: nothing was kept; try again, or another mirror")
        os.replace(part, path)
    except urllib.error.HTTPError as error:
        raise FetchError(f"{url} answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise FetchError(f"{url} cannot be reached ({error.reason}): is there a network?") from None
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(
            f"{url} could not be fetched to {path} ({error}): run the same command again to go on"
        ) from None


def _receive(url: str, part: Path, size: int) -> None:
    """Append to `part` what is missing of it, or write it anew where the server cannot start in the middle."""
    have = part.stat().st_size if part.exists() else 0
    if have == size:
        return
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        have = have if resumed else 0
        with part.open("ab" if resumed else "wb") as stream:
            while piece := response.read(min(PIECE, size + 1 - have)):
                have += stream.write(piece)
                if have > size:
                    break  # longer than the pinned file: its hash will not fit


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
