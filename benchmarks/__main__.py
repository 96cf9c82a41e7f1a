"""`python -m benchmarks [--quick] [--only NAME] [--to FOLDER]`: measure, write the report."""

import argparse
import tempfile
from pathlib import Path
from time import monotonic

from benchmarks import series
from benchmarks.cases import CASES
from benchmarks.measure import QUICK, Case, Effort
from benchmarks.plot import svg
from benchmarks.report import figure, machine, markdown, measured

REPORT, PICTURE, SERIES = "REPORT.md", "report.svg", "series.jsonl"
IN_DOCS = "../docs/pictures/speed.svg"
"""Where the picture is, beside this program: the documentation shows it, too."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="What holdfast costs.")
    parser.add_argument("--quick", action="store_true", help="see that it runs; measures nothing")
    parser.add_argument("--only", action="append", choices=list(CASES), help="this case alone")
    parser.add_argument("--to", type=Path, help="where to write; default: beside this program")
    args = parser.parse_args()
    began = monotonic()
    cases = [_measure(name, QUICK if args.quick else Effort()) for name in args.only or CASES]
    seconds = monotonic() - began
    folder, picture = args.to, PICTURE
    if folder is None:
        if args.quick or args.only:
            return  # a part, or a rush, must not replace the report
        folder, picture = Path(__file__).parent, IN_DOCS
    folder.mkdir(parents=True, exist_ok=True)
    made = f"{machine()}; {seconds:.0f} s in all"
    reports = series.append(folder / SERIES, series.entry(cases, made))
    (folder / picture).write_text(svg(cases))
    (folder / REPORT).write_text(markdown(cases, picture, made, series.table(reports)))
    print(f"\nwrote {REPORT}, {picture} and a line of {SERIES} in {folder}, after {seconds:.0f} s")


def _measure(name: str, effort: Effort) -> Case:
    print(f"{name} ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        case = CASES[name](effort, Path(folder))
    for row in case.rows:
        part = f"  ({row.ratio.median:.2f} x {case.reference})" if row.ratio else ""
        print(f"  {row.label:<26} {figure(row):<44}{part}")
    for target in case.targets:
        mark = {True: "ok ", False: "NOT", None: "?  "}[target.met]
        print(f"  {mark} {target.text}: {measured(target)}")
    return case


if __name__ == "__main__":
    main()
