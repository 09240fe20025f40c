"""The compiler beside the node: what is in its way does not stop the node."""

import sys

import pytest

pytest.importorskip('gk_planner.ros', reason='the ROS side is not there')

from gk_planner.ros import compiler


def test_without_an_interpreter_to_start(monkeypatch):
    said = []
    monkeypatch.setattr(compiler, 'is_compiled', lambda: False)
    monkeypatch.setattr(sys, 'executable', '/nonexistent/python')
    beside = compiler.Compiler(said.append)
    beside.start()
    beside.stop()
    line, = said
    assert line.startswith('kernels are compiled when they are needed: ')
    assert '/nonexistent/python' in line


def test_what_is_compiled_is_left_alone(monkeypatch):
    said = []
    monkeypatch.setattr(compiler, 'is_compiled', lambda: True)
    compiler.Compiler(said.append).start()
    assert said == []
