"""Every exception class of the core has its error code, and every code its class."""

import inspect

import pytest

pytest.importorskip('gk_planner_interfaces.msg', reason='gk_planner_interfaces is not built')

from gk_planner import errors
from gk_planner.ros.error_codes import constant_name, error_code
from gk_planner_interfaces.msg import TaskStatus

CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass)
           if issubclass(cls, errors.GkPlannerError)]


def instance(cls):
    return cls('message', []) if cls is errors.InfeasibleError else cls('message')


def test_the_mapping_is_total_and_one_to_one():
    codes = {cls.__name__: error_code(instance(cls)) for cls in CLASSES}
    assert len(codes) > 15 and len(set(codes.values())) == len(codes)
    assert 0 not in codes.values()


def test_every_constant_belongs_to_a_class_and_every_class_to_a_constant():
    constants = {name for name in dir(TaskStatus) if name.startswith('ERROR_')}
    assert constants - {'ERROR_NONE'} == {constant_name(cls) for cls in CLASSES}


def test_known_codes():
    assert error_code(None) == TaskStatus.ERROR_NONE == 0
    assert error_code(errors.FormulaError('x')) == TaskStatus.ERROR_FORMULA
    assert error_code(errors.NotActiveError('x')) == TaskStatus.ERROR_NOT_ACTIVE
    assert constant_name(errors.GkPlannerError) == 'ERROR_GK_PLANNER'
