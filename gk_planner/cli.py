"""The command line: ``gk_planner plan`` and ``gk_planner explain``.

Exit status 0: solved; 2: bad input; 3: infeasible. On 2 and 3 the first line on stderr is
``error: ...``; with ``--json`` stdout holds a JSON object in every case.
"""

import argparse
from collections.abc import Sequence
from dataclasses import fields
import json
import os
import sys
from typing import Any, NoReturn

from gk_planner.base_space import BaseSpace
from gk_planner.boolean_task import Task
from gk_planner.config import Config
from gk_planner.errors import GkPlannerError, InputError
from gk_planner.explain import explain
from gk_planner.planner import Planner
from gk_planner.results import Plan

# Shorter names that stand beside the flag made from a field's name.
_ALIASES = {'annotations_file': '--annotations'}


class UsageError(InputError):
    """The arguments of a command do not fit it."""


class _Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, detail=self.format_usage().rstrip())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    as_json = '--json' in given
    try:
        options = _parser().parse_args(given)
        result, text = options.run(options)
        if as_json:
            _print_json(result)
        else:
            print(text, flush=True)
    except GkPlannerError as error:
        print(f'error: {error.message}', file=sys.stderr)
        if error.detail:
            print(error.detail, file=sys.stderr)
        if as_json:
            _print_json(error.to_dict())
        return error.exit_status
    except KeyboardInterrupt:
        print('error: interrupted', file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of stdout is gone; keep Python from failing on the flush at exit.
        sys.stdout = open(os.devnull, 'w')  # noqa: SIM115
        return 0
    return 0


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


def _run_plan(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    space = BaseSpace.from_file(options.map, **_settings(options))
    task = Task.from_file(options.task)
    start = tuple(options.start) if options.start else task.start
    plan = Planner(space).plan(task, start)
    if options.png:
        from gk_planner.draw import draw_plan  # matplotlib is slow to import
        draw_plan(options.png, space, task, plan, start)
    return plan.to_dict(), _plan_text(plan)


def _run_explain(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    settings = _settings(options)
    task = Task.from_file(options.task)
    space = BaseSpace.from_file(options.map, **settings) if options.map else None
    start = tuple(options.start) if options.start else task.start
    explanation = explain(task, space, start, Config.from_fields(settings))
    if explanation.conflict is not None:
        # The explanation is the answer even where there is no plan.
        if not options.json:
            print(explanation.to_text())
        raise explanation.conflict
    return explanation.to_dict(), explanation.to_text()


def _plan_text(plan: Plan) -> str:
    kind = 'optimal' if plan.optimal else f'most probable, -log z = {plan.value:.6g}'
    count = f'{len(plan.options)} option' + ('' if len(plan.options) == 1 else 's')
    lines = [f'plan: {count}, {plan.cost:.3f} m, {kind}']
    if not plan.options:
        lines[0] = 'plan: nothing to do, the formula already holds'
    width = max((len(option.goal) for option in plan.options), default=0)
    for number, option in enumerate(plan.options, start=1):
        x, y = option.position
        done = ', '.join(goal for goal, value in option.task_state.items() if value)
        lines.append(f'{number:3d}. {option.goal:<{width}}  {option.cost:8.3f} m to '
                     f'{option.site} ({x:.2f}, {y:.2f}); done: {done or "none"}')
    lines += [f'warning: {warning}' for warning in plan.warnings]
    return '\n'.join(lines)


def _print_json(result: dict[str, Any]) -> None:
    print(json.dumps(result, allow_nan=False), flush=True)
