"""Tests of the exception tree: what a caller may catch, and the dictionary of every class."""

import inspect
import json

import pytest

from gk_planner import errors
from gk_planner.errors import GkPlannerError, InfeasibleError, InputError

CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass)
           if issubclass(cls, GkPlannerError)]
PLAIN = [cls for cls in CLASSES if cls is not InfeasibleError]


def test_every_class_is_here():
    assert {cls.__name__ for cls in CLASSES} >= {
        'GkPlannerError', 'InputError', 'ConfigError', 'MapError', 'AnnotationsError',
        'TaskError', 'FormulaError', 'ConstraintError', 'StartError', 'RegroundError',
        'LimitError', 'NotConvergedError', 'InfeasibleError'}


@pytest.mark.parametrize('cls', PLAIN)
def test_bad_input_has_class_reason_and_status_two(cls):
    error = cls('site: what would be right', detail='line\n^')
    assert error.to_dict() == {'status': 'error', 'error': cls.__name__,
                               'reason': 'site: what would be right'}
    assert error.exit_status == 2
    assert (str(error), error.detail) == ('site: what would be right', 'line\n^')


def test_an_infeasible_task_has_its_conflicts_and_status_three():
    conflicts = [{'kind': 'formula', 'name': 'a & b'}, {'kind': 'site', 'name': 'x'}]
    error = InfeasibleError('cannot be done', conflicts)
    assert error.to_dict() == {'status': 'infeasible', 'reason': 'cannot be done',
                               'conflicts': conflicts}
    assert error.exit_status == 3
    assert error.detail == ''
    assert json.loads(json.dumps(error.to_dict())) == error.to_dict()


@pytest.mark.parametrize('cls', PLAIN)
def test_input_errors_are_value_errors(cls):
    assert issubclass(cls, ValueError) == issubclass(cls, InputError)


def test_the_tree():
    assert not issubclass(InfeasibleError, InputError)
    for child, parent in (('FormulaError', 'TaskError'), ('ConstraintError', 'TaskError'),
                          ('MapError', 'InputError'), ('LimitError', 'InputError')):
        assert issubclass(getattr(errors, child), getattr(errors, parent))
