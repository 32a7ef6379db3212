"""README.md of an experiment's folder: what it asks, how to run it, and the verdicts as they were computed."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from txjax.lab.record import RECORD, Results
from txjax.store.files import write_text

FILE, NOTES = "README.md", "NOTES.md"


def write_readme(folder: Path) -> None:
    """From the docstrings of the folder's studies and all that lies in results/; nothing in it is typed by hand.

    NOTES.md, where there is one, is what people have to add, and comes last.
    """
    studies = sorted(folder.glob("*.py"), key=lambda path: (path.stem != "study", path.stem))
    documented = [text for path in studies if (text := ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))))]
    parts = [f"# {folder.name.replace('_', ' ')}", *map(_quoted, documented[:1])]
    for record in sorted((folder / "results").glob(f"*/{RECORD}")):
        parts += _section(Results.load(record.parent), record.parent.relative_to(folder))
    if (folder / NOTES).is_file():
        parts.append((folder / NOTES).read_text(encoding="utf-8").strip())
    write_text(folder / FILE, "\n\n".join(parts) + "\n")


def _quoted(docstring: str) -> str:
    """Paragraphs as they are, and indented commands as a block."""
    blocks = []
    for block in docstring.split("\n\n"):
        lines = block.splitlines()
        commands = all(line.startswith("  ") for line in lines)
        blocks.append("```\n" + "\n".join(line.strip() for line in lines) + "\n```" if commands else block)
    return "\n\n".join(blocks)


def _section(results: Results, where: Path) -> list[str]:
    facts = results.facts
    start: dict[str, Any] = facts["start"]
    minutes = sum(row.facts.get("seconds", 0.0) for row in results.table) / 60
    lines = [f"- {verdict.line('')}" for verdict in results.verdicts]
    versions = ", ".join(f"{name} {number}" for name, number in start["versions"].items() if number)
    devices = start["devices"]
    hardware = devices["kind"] if devices["platform"] != "cpu" else devices.get("processor", "cpu")
    return [
        f"## {where.name}: {facts['question']}",
        "\n".join(lines),
        f"Scope: {facts['scope']}. [The whole report]({where}/report.md).",
        f"![the effects and their intervals]({where}/figures/forest.svg)",
        f"`{' '.join(start['command'])}` took {minutes:.1f} minutes over {len(results.table)} cells on "
        f"{hardware}, {start['time'][:10]}, {versions}.",
    ]
