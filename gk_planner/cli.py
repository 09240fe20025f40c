"""The command line: ``gk_planner plan``, ``gk_planner explain`` and ``gk_planner precompute``.

Exit status 0: solved; 2: bad input; 3: infeasible. On 2 and 3 the first line on stderr is
``error: ...``; with ``--json`` stdout holds a JSON object in every case.
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
import difflib
import json
import multiprocessing
import os
import re
import signal
import sys
from typing import Any, NoReturn

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.ensemble import Ensemble
from gk_planner.errors import GkPlannerError, InputError, LimitError, StartError
from gk_planner.explain import explain
from gk_planner.grounding import site_cells_of
from gk_planner.planner import Planner
from gk_planner.precompute import precompute
from gk_planner.results import Plan

# JSON object, text and, if there is no plan, why.
_Answer = tuple[dict[str, Any], str, GkPlannerError | None]
# Shorter names that stand beside the flag made from a field's name.
_ALIASES = {'annotations_file': '--annotations'}


class UsageError(InputError):
    """The arguments of a command do not fit it."""


class _Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)
        # Also -1. and -1e-3 are numbers, not flags.
        self._negative_number_matcher = re.compile(r'-\.?\d')

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, detail=f'see {self.prog} --help')


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status, out, err = _run(given)
    except KeyboardInterrupt:
        status, out, err = 130, '', 'error: interrupted'
    try:
        if out:
            print(out, flush=True)
    except OSError as error:
        # Keep Python from failing again on the flush at exit.
        sys.stdout = open(os.devnull, 'w')  # noqa: SIM115
        if not isinstance(error, BrokenPipeError):
            status, err = 2, f'error: cannot write to stdout: {error.strerror}'
    if err:
        print(err, file=sys.stderr)
    return status


def _run(given: list[str]) -> tuple[int, str, str]:
    """Return the exit status and what goes to stdout and stderr."""
    failure: GkPlannerError | None = None
    try:
        options = _parse(given)
        result, text, failure = options.run(options)
    except GkPlannerError as error:
        result, text, failure = error.to_dict(), '', error
    except MemoryError:
        failure = LimitError('not enough memory; the map or the task is too large')
        result, text = failure.to_dict(), ''
    out = json.dumps(result, allow_nan=False) if '--json' in given else text
    if failure is None:
        return 0, out, ''
    return failure.exit_status, out, f'error: {failure.message}\n{failure.detail}'.rstrip()


def _parse(given: list[str]) -> argparse.Namespace:
    options, unknown = _parser().parse_known_args(given)
    if unknown:
        flags = ['--' + name.replace('_', '-') for name in vars(options)]
        near = difflib.get_close_matches(unknown[0], flags, n=1)
        raise UsageError(f"unknown argument '{unknown[0]}'"
                         + (f"; did you mean '{near[0]}'?" if near else ''))
    return options


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog='gk_planner', description='Optimal plans for logical errands on an '
                     'occupancy grid.')
    commands = parser.add_subparsers(required=True, metavar='COMMAND')

    plan = commands.add_parser('plan', help='find the cheapest plan for a task on a map')
    plan.add_argument('map', metavar='MAP.yaml', help='Nav2 map_server YAML file')
    plan.add_argument('task', metavar='TASK.yaml', help='task file')
    plan.add_argument('--png', metavar='FILE', help='draw the plan')
    plan.set_defaults(run=_run_plan)

    why = commands.add_parser('explain', help='show goals, constraints, clauses and conflicts')
    why.add_argument('task', metavar='TASK.yaml', help='task file')
    why.add_argument('map', metavar='MAP.yaml', nargs='?', help='Nav2 map_server YAML file')
    why.set_defaults(run=_run_explain)

    ahead = commands.add_parser('precompute', help='solve options ahead into one file, or go on '
                                'with a file that was begun; planners use it as ensemble_file')
    ahead.add_argument('map', metavar='MAP.yaml', help='Nav2 map_server YAML file')
    ahead.add_argument('file', metavar='ENSEMBLE', help='the file to write')
    ahead.add_argument('--task', metavar='TASK.yaml', action='append', default=[],
                       help='only cells of the sites of this task; may be given again (default: '
                       'every free cell of the map)')
    ahead.add_argument('--workers', type=int, metavar='N',
                       help='processes that solve (default: threads, one for each core)')
    ahead.add_argument('--dask', nargs='?', const='', metavar='ADDRESS',
                       help='solve on the Dask cluster of this scheduler; without an address on '
                       'one that is started here, with N workers')
    ahead.set_defaults(run=_run_precompute)

    for command in (plan, why):
        command.add_argument('--start', nargs=2, type=float, metavar=('X', 'Y'),
                             help='position of the robot in metres; before the start of the task')
    for command in (plan, why, ahead):
        command.add_argument('--json', action='store_true', help='print a JSON object')
        _add_settings(command)
    return parser


def _add_settings(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group('settings')
    for spec in fields(Config):
        flags = ['--' + spec.name.replace('_', '-')]
        if spec.name in _ALIASES:
            flags.append(_ALIASES[spec.name])
        unit = spec.metadata['unit']
        text = f"{spec.metadata['description']}{f' [{unit}]' if unit else ''} " \
               f'(default {spec.default!r})'.replace('%', '%%')
        kind = type(spec.default)
        if kind is bool:
            group.add_argument(*flags, action=argparse.BooleanOptionalAction, default=None,
                               help=text)
        else:
            group.add_argument(*flags, dest=spec.name, type=kind, metavar=kind.__name__.upper(),
                               help=text)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    given = {spec.name: getattr(options, spec.name) for spec in fields(Config)}
    return {name: value for name, value in given.items() if value is not None}


def _run_plan(options: argparse.Namespace) -> _Answer:
    space = BaseSpace.from_file(options.map, **_settings(options))
    task = Task.from_file(options.task)
    start = tuple(options.start) if options.start else task.start
    if start is None:
        raise StartError(f'{task.source}: no start; give --start X Y or start in the task')
    plan = Planner(space).plan(task, start)
    if options.png is not None:
        from gk_planner.draw import draw_plan  # matplotlib is slow to import
        draw_plan(options.png, space, task, plan, start)
    return plan.to_dict(), _plan_text(plan), None


def _run_explain(options: argparse.Namespace) -> _Answer:
    settings = _settings(options)
    task = Task.from_file(options.task)
    space = BaseSpace.from_file(options.map, **settings) if options.map else None
    start = tuple(options.start) if options.start else task.start
    explanation = explain(task, space, start, Config.from_fields(settings))
    return explanation.to_dict(), explanation.to_text(), explanation.conflict


def _run_precompute(options: argparse.Namespace) -> _Answer:
    if options.workers is not None and options.workers < 1:
        raise UsageError(f'--workers: {options.workers} is less than 1')
    space = BaseSpace.from_file(options.map, **_settings(options))
    cells = [cell for path in options.task
             for site in site_cells_of(Task.from_file(path), space) for cell in site.tolist()]
    with _executor(options.workers, options.dask) as executor:
        found = _with_progress_bar(space, options.file, cells if options.task else None, executor,
                                   None if options.workers is None else 2 * options.workers)
    size = os.path.getsize(options.file)
    return {'status': 'solved', 'file': options.file, 'options': len(found),
            'cells': space.free.size, 'bytes': size}, (
        f'{options.file}: {len(found)} options on {space.free.size} cells, '
        f'{size / 1e6:.3g} MB'), None


@contextmanager
def _executor(workers: int | None, address: str | None) -> Iterator[Executor | None]:
    """Who solves the options; None stands for threads."""
    if address is not None:
        try:
            import distributed
        except ImportError:
            raise UsageError("--dask: Dask is not installed; pip install 'gk_planner[dask]'",
                             ) from None
        try:
            client = distributed.Client(address) if address else distributed.Client(
                n_workers=workers, threads_per_worker=1, dashboard_address=None)
        except (OSError, ValueError) as error:
            raise UsageError(f'--dask: no scheduler at {address}: {error}') from None
        with client:
            yield client.get_executor()
    elif workers is not None:
        # An interrupt is for this process: it cancels the jobs and keeps what is solved.
        with ProcessPoolExecutor(workers, multiprocessing.get_context('spawn'), signal.signal,
                                 (signal.SIGINT, signal.SIG_IGN)) as pool:
            yield pool
    else:
        yield None


def _with_progress_bar(space: BaseSpace, path: str, cells: list[int] | None,
                       executor: Executor | None, in_flight: int | None) -> Ensemble:
    from tqdm import tqdm  # needed here only
    with tqdm(unit=' options', disable=None, leave=False) as bar:
        def show(done: int, total: int) -> None:
            bar.total = total
            if not bar.n:
                bar.initial = done
            bar.update(done - bar.n)

        return precompute(space, path, cells, executor=executor, in_flight=in_flight,
                          progress=show)


def _plan_text(plan: Plan) -> str:
    if not plan.options:
        lines = ['plan: nothing to do, the formula already holds']
    else:
        count = f'{len(plan.options)} option' + 's' * (len(plan.options) > 1)
        lines = [f'plan: {count}, {plan.cost:.3f} m, {_quality(plan)}']
    steps = [option.goal + ' (undone)' * (not option.task_state[option.goal])
             for option in plan.options]
    width = max(map(len, steps), default=0)
    for number, (step, option) in enumerate(zip(steps, plan.options, strict=True), start=1):
        x, y = option.position
        lines.append(f'{number:3d}. {step:<{width}}  {option.cost:8.3f} m to '
                     f'{option.site} ({x:.3f}, {y:.3f})')
    lines += [f'warning: {warning}' for warning in plan.warnings]
    return '\n'.join(lines)


def _quality(plan: Plan) -> str:
    if plan.optimal:
        return 'optimal'
    if plan.value is None:
        return f'not proven optimal: at least {plan.bound:.3f} m, gap {plan.gap:.1%}'
    return f'most probable, -log z = {plan.value:.6g}'
