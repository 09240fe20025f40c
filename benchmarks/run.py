"""Measure gk_planner beside other ways to do the same work: ``run.py`` or ``run.py --check``.

Without a flag it writes docs/benchmarks.md with its figures, and fails if something is not as it
is promised. With ``--check`` it measures the ratios again, compares them with the table that is
there, and fails if one has fallen by half. Before timing, both answers are compared.
"""

from collections.abc import Iterator
import math
import os
from pathlib import Path
import platform
import re
import sys

import base_layer
from comparison import Limit, Row
import figures
import numpy as np
import replanning
import scipy
import start_up
import task_layer

DOCS = Path(__file__).resolve().parent.parent / 'docs'
TABLE = DOCS / 'benchmarks.md'


ABOUT = """\
Written by `make bench`; medians within one run, ours and theirs in turns on the same work, after
comparing their answers. What counts is the ratio: `make bench-check` measures it again and fails
where it has fallen by half.

In the rows of the task layer ours and Algorithm 2 are given a `Task` and matrices; what follows
from the task alone (masks, the program of its formula) is worked out in the first call and kept
with it, and "anew" is our time with a new `Task` in every call, reading it included. The peers are
given the same numbers, and build their model (CP-SAT) or write, translate and search it in a
process of their own (Fast Downward) in every call; their search alone is named too."""


def main() -> int:
    """Run all comparisons; return the exit status."""
    if sys.argv[1:] == ['--check']:
        return check()
    rows = [*quick_rows(), *announced(task_layer.rich_orders())]
    limits = [*base_layer.limits(), *replanning.limits(), *start_up.limits()]
    lines = ['# Benchmarks', '', ABOUT, '', machine(), '',
             '| work | against | theirs [ms] | ours [ms] | ratio | promised | |',
             '|---|---|---:|---:|---:|---:|---|', *map(line_of, rows), '',
             '## Figures', '', *[f'{said}\n\n![{name}]({name}.png)\n' for said, name in zip(
                 figures.draw(DOCS), ('figure_b_c', 'figure_d_e'), strict=True)],
             '## Memory, start-up, latency', '', '| what | measured | promised |',
             '|---|---:|---|', *map(limit_line, limits), '',
             '## Ensembles solved ahead', '', '| complete ensemble | time | file |',
             '|---|---:|---:|', *start_up.ensembles()]
    TABLE.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return report([*(f'{row.work} against {row.against}: {row.ratio:.3g} times, promised '
                     f'{row.target:g}' for row in rows if row.ratio < row.target),
                   *(f'{limit.what}: {limit.measured:.2g} {limit.unit}, promised {limit.most:g}'
                     for limit in limits if limit.measured > limit.most)])


def check() -> int:
    """Compare the ratios with those of the table."""
    known = committed()
    problems = []
    for row in quick_rows():
        before = known.pop((row.work, row.against), None)
        if before is None:
            problems.append(f'{row.work} against {row.against}: not in {TABLE.name}')
        elif row.ratio < before / 2:
            problems.append(f'{row.work} against {row.against}: {row.ratio:.3g} times, in '
                            f'{TABLE.name} {before:g}')
    for work, against in known:
        print(f'not measured again: {work} against {against}')
    return report(problems)


def quick_rows() -> Iterator[Row]:
    """All rows whose peers take seconds."""
    for part in (task_layer.rows, base_layer.rows, base_layer.soft_rows, replanning.rows):
        yield from announced(part())


def announced(rows: Iterator[Row]) -> Iterator[Row]:
    """Print rows as they come."""
    for row in rows:
        print(line_of(row), flush=True)
        yield row


def line_of(row: Row) -> str:
    """Return a row as Markdown."""
    promised = f'{row.target:g}' if row.target else ''
    return (f'| {row.work} | {row.against} | {row.theirs:.3g} | {row.ours:.3g} | {row.ratio:.3g} '
            f'| {promised} | {row.remark} |')


def committed() -> dict[tuple[str, str], float]:
    """Read the ratios of the table by work and peer."""
    found = {}
    for line in TABLE.read_text(encoding='utf-8').splitlines():
        cells = [cell.strip() for cell in line.split('|')[1:-1]]
        if len(cells) == 7 and re.fullmatch(r'[\d.e+-]+', cells[4]) and cells[4][0] != '-':
            found[cells[0], cells[1]] = float(cells[4])
    if not found:
        raise SystemExit(f'{TABLE} has no table; run make bench first')
    return found


def machine() -> str:
    """Return what the times depend on."""
    model = re.search(r'^model name\s*: (.*)', Path('/proc/cpuinfo').read_text(), re.MULTILINE)
    return (f'{model[1] if model else platform.machine()}, {os.cpu_count()} cores; '
            f'{platform.system()} {platform.machine()}, Python {platform.python_version()}, '
            f'numpy {np.__version__}, scipy {scipy.__version__}.')


def limit_line(limit: Limit) -> str:
    """Return a measurement without a peer as Markdown."""
    promised = f'at most {limit.most:g} {limit.unit}' if limit.most < math.inf else ''
    return f'| {limit.what} | {limit.measured:.2g} {limit.unit} | {promised} |'


def report(problems: list[str]) -> int:
    """Print what fell short; return the exit status."""
    for problem in problems:
        print(f'error: {problem}', file=sys.stderr)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
