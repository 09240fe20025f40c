"""The command line: ``gk_planner plan`` and ``gk_planner explain``.

Exit status 0: solved; 2: bad input; 3: infeasible. On 2 and 3 the first line on stderr is
``error: ...``; with ``--json`` stdout holds a JSON object in every case.
"""

import argparse
from collections.abc import Sequence
from dataclasses import fields
import difflib
import json
import os
import re
import sys
from typing import Any, NoReturn

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.errors import GkPlannerError, InputError, LimitError, StartError
from gk_planner.explain import explain
from gk_planner.planner import Planner
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

    for command in (plan, why):
        command.add_argument('--start', nargs=2, type=float, metavar=('X', 'Y'),
                             help='position of the robot in metres; before the start of the task')
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
