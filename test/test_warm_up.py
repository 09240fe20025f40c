"""After the warm-up nothing is compiled any more; and what the cache of kernels relies on."""

import importlib
from pathlib import Path
import subprocess
import sys

from numba.core.dispatcher import Dispatcher
import pytest

CORE = Path(__file__).parents[1] / 'gk_planner'
MODULES = sorted(file.stem for file in CORE.glob('*.py') if file.stem != '__main__')
WORLDS = ['office', 'tsp_nine', 'xor_dnf', 'cliff_1', 'remap_3x3_a']

AFTERWARDS = """
import sys
from gk_planner import BaseSpace, Planner, Task
from gk_planner.warm_up import is_compiled, warm_up
from test_warm_up import kernels

warm_up((float(sys.argv[1]),))
if sys.argv[1] == '0':
    assert is_compiled()
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


def test_kernels_that_are_not_on_disk_are_missed(tmp_path):
    code = 'import gk_planner.planner, gk_planner.warm_up; print(gk_planner.warm_up.is_compiled())'
    ended = subprocess.run([sys.executable, '-c', code], env={
        'PYTHONPATH': str(CORE.parent), 'NUMBA_CACHE_DIR': str(tmp_path)},
        capture_output=True, text=True, check=True)
    assert ended.stdout == 'False\n'
