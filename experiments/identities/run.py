"""The claims that are mathematics, each computed by txjax's own functions, and wrong forms of them that must fail.

  python experiments/identities/run.py [--publish]       (half a minute on 2 cores)

--publish writes README.md and results.json beside this file.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from txjax.lab.identities import collect, examine, table, to_json
from txjax.store.files import write_json, write_text
from txjax.store.provenance import start

FOLDER = Path(__file__).parent
README = """# The exact claims

Which of the tutorials' claims are mathematics, and do they hold of this code? Each row of the table is computed by
txjax's own functions and models: the largest deviation found, beside the tolerance that it is held to and its reason.
A row that "fails" is a form that is said and is not true, and has to deviate by more. The numbers are those of
[docs/claims.toml](../../docs/claims.toml); the functions lie beside this file, and `tests/lab/test_identities.py` calls
them too.

`python experiments/identities/run.py --publish` writes this page and results.json, in {seconds:.0f} s here.

{table}

{date}, commit {commit}, Python {python}, jax {jax}, NumPy {numpy}, {kind}, float32 unless a row says float64.
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--publish", action="store_true", help="write README.md and results.json")
    publish = options.parse_args().publish
    findings = examine(collect(FOLDER))
    lines = table(findings)
    print("\n".join(lines))
    failed = [finding for finding in findings if not finding.passed]
    print(f"{len(findings)} rows, {len(failed)} not as expected")
    if publish:
        about = start(["python", "experiments/identities/run.py", "--publish"])
        about = {name: about[name] for name in ("time", "command", "code", "versions", "devices")}
        write_json(FOLDER / "results.json", {"start": about, "rows": to_json(findings)})
        write_text(FOLDER / "README.md", readme(lines, about, sum(finding.seconds for finding in findings)))
    return 1 if failed else 0


def readme(lines: list[str], about: dict, seconds: float) -> str:
    code, versions, devices = about["code"], about["versions"], about["devices"]
    commit = (code["commit"] or "unknown")[:10] + (" with changes" if code["dirty"] else "")
    return README.format(
        seconds=seconds,
        table="\n".join(lines),
        date=about["time"][:10],
        commit=commit,
        python=versions["python"],
        jax=versions["jax"],
        numpy=versions["numpy"],
        kind=devices["kind"],
    )


if __name__ == "__main__":
    sys.exit(main())
