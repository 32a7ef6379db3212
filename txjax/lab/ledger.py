"""The ledger of a study: what was registered before its first run, what changed since, how often it was looked at."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from txjax.lab.study import digest
from txjax.store.files import read_json, write_json
from txjax.store.provenance import start

FILE = "study.json"


@dataclass
class Ledger:
    """study.json of a study's folder.

    registered: digest of what was registered at the first start. changes: other registrations it was started with
    later. looks: when a report was made, and over how many seeds. starts: code, versions, devices, command.
    refused: why nothing was reported after all, where that is so.
    """

    path: Path
    data: dict[str, Any]

    @classmethod
    def open(cls, folder: Path, about: Mapping[str, Any], registration: Mapping[str, Any], explore: bool) -> Ledger:
        """Register at the first start; later ones that differ are noted, and make the study exploratory. One that
        was refused before any of its reported cells ran registers anew: it was told to change.
        """
        path = folder / FILE
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        new = {**about, "registered": digest(registration), "registration": dict(registration), "time": now}
        data = (
            read_json(path) if path.is_file() else {**new, "explore": explore, "changes": [], "looks": [], "starts": []}
        )
        if data.pop("refused", None):
            data |= {name: new[name] for name in ("time", "registered", "registration")}
        known = {data["registered"], *(change["registered"] for change in data["changes"])}
        if digest(registration) not in known:
            data["changes"].append({name: new[name] for name in ("time", "registered", "registration")})
        data["explore"] = data["explore"] or explore
        data["current"] = digest(registration)
        data["starts"].append(start(sys.argv))
        write_json(path, data)
        return cls(path, data)

    @property
    def exploratory(self) -> str | None:
        """Why there can be no verdict, in a sentence, or None."""
        if self.data["explore"]:
            return "run with --explore, before anything was registered"
        if self.data["current"] != self.data["registered"]:
            changed = self.changed
            return f"{', '.join(changed)} changed after the first run (registered {self.data['registered']})"
        return None

    @property
    def changed(self) -> list[str]:
        """What of the registration is not as it was at the first start."""
        latest = next((c for c in self.data["changes"] if c["registered"] == self.data["current"]), None)
        if latest is None:
            return []
        old, new = self.data["registration"], latest["registration"]
        return [name for name in new if old.get(name) != new[name]]

    def refuse(self, why: str) -> None:
        """Note that the study was refused before any of its reported cells ran."""
        self.data["refused"] = why
        write_json(self.path, self.data)

    def look(self, seeds: int) -> None:
        """Note that results over so many seeds have been seen; the same ones seen again are one look."""
        if seeds not in [entry["seeds"] for entry in self.data["looks"]]:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            self.data["looks"].append({"time": now, "seeds": seeds})
            write_json(self.path, self.data)


def registered_seeds(folder: Path) -> int | None:
    """How many seeds a study was registered with, or None before its first start, or where it was refused since."""
    path = folder / FILE
    data: dict[str, Any] = read_json(path) if path.is_file() else {"refused": "it is not there"}
    return None if "refused" in data else data["registration"]["budget"]["seeds"]
