"""Run what the published methods claim, and write what came of it: ``python -m benchmarks.reproduce --write FILE``."""

from __future__ import annotations

import argparse
import datetime
import os
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # many small products; read when numpy is imported

from benchmarks.reproduce import arctan, coman, recorded, recursive, ur10e

SECTIONS = {"coman": coman, "ur10e": ur10e, "arctan": arctan, "recursive": recursive, "recorded": recorded}

HEAD = """# Published methods, reproduced

`make reproduce` writes this page: {command}, {date}. Every pipeline is run by its name with its published settings.
Virtual robots are those of `benchmarks/virtual_arms.py`; nothing that identifies reads what is true of them. Figures
are of held-out motion unless they say training. Published figures are of other robots: ratios can be compared, N·m and
mA cannot. In brackets: what this project set itself.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.reproduce", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="some of them; by default all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="numbers of the virtual robots")
    parser.add_argument("--write", type=Path, help="Markdown file, otherwise to the terminal")
    options = parser.parse_args()
    parts = [
        HEAD.format(
            command=f"seeds {', '.join(map(str, options.seeds))}", date=datetime.datetime.now(datetime.UTC).date()
        )
    ]
    for name in options.sections or SECTIONS:
        parts.append(SECTIONS[name].run(options.seeds).markdown())
        print(parts[-1], flush=True)
    if options.write:
        options.write.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
