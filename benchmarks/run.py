"""Measure gk_planner beside other ways to do the same work: ``run.py`` or ``run.py --check``.

Without a flag it writes docs/benchmarks.md with its figures. With ``--check`` it measures the
ratios again, compares them with the table that is there, and fails if one has fallen by half or is
below what is promised. Before timing, both answers are compared.
"""

from collections.abc import Iterator
import os
from pathlib import Path
import platform
import re
import sys

import base_layer
from comparison import Row
import figures
import numpy as np
import replanning
import scipy
import start_up
import task_layer

DOCS = Path(__file__).resolve().parent.parent / 'docs'
TABLE = DOCS / 'benchmarks.md'


def main() -> int:
    """Run all comparisons; return the exit status."""
    if sys.argv[1:] == ['--check']:
        return check()
    rows = [*quick_rows(), *announced(task_layer.rich_orders())]
    lines = ['# Benchmarks', '', 'Written by `make bench`; medians within one run, ours and '
             'theirs in turns on the same work, after comparing their answers. What counts is the '
             'ratio: `make bench-check` measures it again and fails where it has fallen by half.',
             '',
             machine(), '', '| work | against | theirs [ms] | ours [ms] | ratio | promised | |',
             '|---|---|---:|---:|---:|---:|---|', *map(line_of, rows), '',
             '## Figures', '', *[f'{said}\n\n![{name}]({name}.png)\n' for said, name in zip(
                 figures.draw(DOCS), ('figure_b_c', 'figure_d_e'), strict=True)],
             '## Memory, start-up, latency', '', '| what | measured | promised |',
             '|---|---:|---|',
             *base_layer.bytes_per_cell(),
             f'| `gk_planner plan` on the office world, imports included | '
             f'{start_up.command():.2g} s | 1.5 s |', *node_lines(), '',
             '## Ensembles solved ahead', '', '| complete ensemble | time | file |',
             '|---|---:|---:|', *start_up.ensembles()]
    TABLE.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return report([f'{row.work} against {row.against}: {row.ratio:.3g} times, promised '
                   f'{row.target:g}' for row in rows if row.ratio < row.target])


def check() -> int:
    """Compare the ratios with those of the table."""
    known = committed()
    problems = []
    for row in quick_rows():
        before = known.get((row.work, row.against))
        if before is not None and row.ratio < before / 2:
            problems.append(f'{row.work} against {row.against}: {row.ratio:.3g} times, in '
                            f'{TABLE.name} {before:g}')
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


def node_lines() -> list[str]:
    """Return how soon the node is there and answers; nothing where ROS 2 is not installed."""
    try:
        import node_latency
    except ImportError:
        return ['| the node | not measured: ROS 2 is not installed | |']
    ready, alone, answered, stopped = node_latency.measure()
    return [f'| the node: from its start until it answers `set_task` | {ready / 1e3:.2g} s '
            '| 3 s |',
            f'| the node: a plan of 12 goals on 1000 x 1000 cells | {alone:.0f} ms | |',
            f'| the node: `cancel` while it plans, until its answer | {answered:.0f} ms | |',
            f'| the node: `cancel` while it plans, until it has stopped | {stopped:.0f} ms | |']


def report(problems: list[str]) -> int:
    """Print what fell short; return the exit status."""
    for problem in problems:
        print(f'error: {problem}', file=sys.stderr)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
