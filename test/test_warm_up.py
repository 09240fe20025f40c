"""After the warm-up nothing is compiled any more; and what the cache of kernels relies on."""

import importlib
from pathlib import Path
import subprocess
import sys

from numba.core.dispatcher import Dispatcher
import pytest

from gk_planner import warm_up

CORE = Path(__file__).parents[1] / 'gk_planner'
MODULES = sorted(file.stem for file in CORE.glob('*.py') if file.stem != '__main__')
WORLDS = ['office', 'tsp_nine', 'xor_dnf', 'cliff_1', 'remap_3x3_a']

AFTERWARDS = """
import sys
from gk_planner import BaseSpace, Planner, Task
from gk_planner.warm_up import warm_up
from test_warm_up import kernels

warm_up((float(sys.argv[1]),))
before = {name: len(kernel.signatures) for name, kernel in kernels()}
for world in sys.argv[2:]:
    name = 'remap_3x3' if world.startswith('remap') else world
    space = BaseSpace.from_file(f'maps/{name}.yaml', temperature=float(sys.argv[1]))
    planner = Planner(space)
    task = Task.from_file(f'config/tasks/{world}.yaml')
    planner.plan(task)
    planner.reground([task.sites[0].to_dict()])
    Planner(space, former=planner).plan(task)
for name, kernel in kernels():
    assert len(kernel.signatures) == before[name], (name, kernel.signatures)
"""


def kernels():
    """Return the compiled functions of the core with their names."""
    for module in MODULES:
        for name, value in vars(importlib.import_module(f'gk_planner.{module}')).items():
            if isinstance(value, Dispatcher) and value.__module__ == f'gk_planner.{module}':
                yield f'{module}.{name}', value


@pytest.mark.parametrize('temperature', ['0', '1'])
def test_nothing_is_compiled_after_the_warm_up(temperature):
    ended = subprocess.run([sys.executable, '-c', AFTERWARDS, temperature, *WORLDS],
                           cwd=CORE.parent, env={'PYTHONPATH': f'{CORE.parent}:test'},
                           capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(('name', 'kernel'), list(kernels()))
def test_kernels_are_cached_and_call_no_kernel_of_another_file(name, kernel):
    # The cache is renewed when the file of a kernel changes, and looks at no other file.
    assert kernel.targetoptions['nogil'], name
    assert type(kernel._cache).__name__ != 'NullCache', name
    function = kernel.py_func
    for word in function.__code__.co_names:
        value = function.__globals__.get(word)
        if isinstance(value, Dispatcher):
            assert value.__module__ == kernel.__module__, f'{name} calls {word}'


def test_it_is_known_whether_the_kernels_are_on_disk(monkeypatch, tmp_path):
    stamp, state = tmp_path / 'stamp', ['these sources']
    monkeypatch.setattr(warm_up, '_stamp', lambda: (stamp, *state))
    assert not warm_up.is_compiled()
    assert warm_up.compile_all() > 0 and warm_up.is_compiled()
    state[:] = ['other sources']
    assert not warm_up.is_compiled()


def test_the_stamp_lies_beside_the_kernels_and_names_the_sources(tmp_path):
    code = 'from gk_planner import warm_up; print(*warm_up._stamp())'
    found = [subprocess.run([sys.executable, '-c', code], env={
        'PYTHONPATH': str(CORE.parent), **variables}, capture_output=True, text=True,
        check=True).stdout.split() for variables in ({}, {'NUMBA_CACHE_DIR': str(tmp_path)})]
    assert found[0][1] == found[1][1] and len(found[0][1]) == 64
    assert Path(found[0][0]).parent == CORE / '__pycache__'
    assert Path(found[1][0]).is_relative_to(tmp_path)
