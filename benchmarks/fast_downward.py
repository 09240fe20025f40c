"""Fast Downward, optimal (A* with LM-cut), on ordered tours in PDDL with action costs."""

from importlib.util import find_spec
from pathlib import Path
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

import numpy as np

# Only its program is needed, not the planning framework that its package imports.
_PROGRAM = Path(find_spec('up_fast_downward').origin).parent / 'downward' / 'fast-downward.py'
_SCALE = 1000

_DOMAIN = """\
(define (domain tour)
  (:requirements :strips :typing :action-costs)
  (:types place)
  (:predicates (at ?p - place) (done ?p - place) (todo ?p - place) (ready ?p - place))
  (:functions (total-cost) - number (cost ?a ?b - place) - number)
{actions})
"""
# One action for each goal, so that its preconditions are those of the order.
_ACTION = """\
  (:action do-{goal} :parameters (?from - place)
    :precondition (and (at ?from) (todo s{goal}){order})
    :effect (and (not (at ?from)) (at s{goal}) (done s{goal}) (not (todo s{goal}))
                 (increase (total-cost) (cost ?from s{goal}))))
"""


class Answer(NamedTuple):
    """Cost of the cheapest tour, and the time of the search without translation and process."""

    cost: float
    search_ms: float


def solve(between: np.ndarray, entry: np.ndarray, before: list[tuple[int, int]]) -> Answer:
    """Return the cheapest tour, legs rounded to thousandths."""
    n = len(entry)
    costs = np.rint(np.vstack([between, entry]) * _SCALE).astype(int)
    places = ' '.join(f's{i}' for i in range(n + 1))
    actions = ''.join(_ACTION.format(goal=goal, order=''.join(
        f' (done s{first})' for first, then in before if then == goal)) for goal in range(n))
    domain = _DOMAIN.format(actions=actions).replace(
        '  (:predicates', f'  (:constants {places} - place)\n  (:predicates')
    lengths = ' '.join(f'(= (cost s{i} s{j}) {costs[i, j]})'
                       for i in range(n + 1) for j in range(n) if i != j)
    problem = (f'(define (problem p) (:domain tour)\n (:init (at s{n}) (= (total-cost) 0) '
               + ' '.join(f'(todo s{i})' for i in range(n)) + f'\n {lengths})\n (:goal (and '
               + ' '.join(f'(done s{i})' for i in range(n))
               + '))\n (:metric minimize (total-cost)))')
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, 'domain.pddl').write_text(domain)
        Path(folder, 'problem.pddl').write_text(problem)
        run = subprocess.run([sys.executable, _PROGRAM, 'domain.pddl', 'problem.pddl', '--search',
                              'astar(lmcut())'], cwd=folder, capture_output=True, text=True,
                             check=True)
    return Answer(int(re.search(r'Plan cost: (\d+)', run.stdout)[1]) / _SCALE,
                  float(re.search(r'Search time: ([\d.e-]+)s', run.stdout)[1]) * 1e3)
