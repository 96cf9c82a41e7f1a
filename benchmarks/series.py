"""The last reports as a series: one line of JSON for each, in `series.jsonl`.

One report may be a lucky one. So `make bench` appends what came out of every promise, and the
report has a table of the last ten.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.measure import Case

SHOWN = 10

Entry: TypeAlias = dict[str, Any]
"""`when`, `commit`, `machine`, and `promises`: for each case and text, the median, the quartile
that decides, and whether the promise was kept. What could not be measured is not there."""


def entry(cases: Sequence[Case], machine: str) -> Entry:
    """What came out of every promise, now."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": machine,
        "promises": {
            case.name: {
                target.text: [_short(target.measured.median), _short(target.worse), target.met]
                for target in case.targets
                if target.measured is not None and target.worse is not None
            }
            for case in cases
            if case.targets
        },
    }


def append(path: Path, new: Entry) -> list[Entry]:
    """Add a report to the file; gives all that it has."""
    with path.open("a") as file:
        file.write(json.dumps(new, ensure_ascii=False) + "\n")
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(entries: Sequence[Entry]) -> Iterator[str]:
    """The promises of the last report, and what came out of them in the last ten."""
    shown = entries[-SHOWN:]
    yield "## The last reports"
    yield ""
    yield (
        "The quartile that decides, in each of the last ten reports, the newest on the right; in "
        "bold where the promise was not kept. All of them are in [series.jsonl](series.jsonl), "
        "with the machine that each was made on."
    )
    yield ""
    heads = [f"{each['when'][:10]} {each['commit']}" for each in shown]
    yield f"| case | promised | {' | '.join(heads)} |"
    yield f"|---|---|{'--:|' * len(shown)}"
    for case, promises in shown[-1]["promises"].items():
        for text in promises:
            cells = [_cell(each["promises"].get(case, {}).get(text)) for each in shown]
            yield f"| {case} | {text} | {' | '.join(cells)} |"


def _cell(outcome: Sequence[Any] | None) -> str:
    if outcome is None:
        return ""
    _, worse, kept = outcome
    return f"{worse:g}" if kept else f"**{worse:g}**"


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def _commit() -> str:
    """The commit that is measured, with a `+` if files differ from it; '' outside a repository."""
    words = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    told = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True)
    return told.stdout.strip()
