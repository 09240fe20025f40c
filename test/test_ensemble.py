"""Ensembles on disk: every executor writes the same file, and a cut-off run goes on."""

from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
import errno
import json
import multiprocessing
import resource
from types import SimpleNamespace

import numpy as np
import pytest
from test_base_space import drawn

from gk_planner import BaseSpace, Config
from gk_planner import precompute as precomputing
from gk_planner.annotations import Annotations
from gk_planner.ensemble import Ensemble, header_of, Layout
from gk_planner.errors import CanceledError, EnsembleError, LimitError
from gk_planner.occupancy_map import OccupancyMap
from gk_planner.option_library import OptionLibrary
from gk_planner.precompute import precompute

WORLD = '.....# ..#... .#.... .....#'


class AtOnce(Executor):
    """Does the work in submit, so that tests see every job; after some it refuses."""

    def __init__(self, jobs=10**6):
        self.jobs = jobs

    def submit(self, function, /, *arguments, **keywords):
        future = Future()
        if self.jobs == 0:
            future.set_exception(CanceledError('enough'))
        else:
            self.jobs -= 1
            future.set_result(function(*arguments, **keywords))
        return future


@pytest.fixture
def one_by_one(monkeypatch):
    monkeypatch.setattr(precomputing, '_JOB_BYTES', 1)


def weighted():
    space = drawn(WORLD)
    return BaseSpace(space.grid_map, Config(), Annotations(
        weights=((((0.0, 0.0), (3.0, 0.0), (3.0, 3.0), (0.0, 3.0)), 2.5),)))


@pytest.mark.parametrize('space', [
    drawn(WORLD), drawn(WORLD, temperature=1.0), drawn(WORLD, connectivity=4), weighted()],
    ids=['shortest', 'soft', 'four moves', 'weighted'])
def test_complete_ensemble(tmp_path, space):
    found = precompute(space, tmp_path / 'all')
    free = np.flatnonzero(space.free)
    assert list(found) == free.tolist() and len(found) == free.size and found.fits(space)
    for known in OptionLibrary(space).complete():
        option = found[known.target]
        np.testing.assert_array_equal(option.direction, known.direction)
        np.testing.assert_array_equal(option.values(free), known.values(free))
        np.testing.assert_array_equal(option.metres(free), known.metres(free))
        assert option.target == known.target and not option.direction.flags.writeable


@pytest.mark.parametrize('kind', ['threads', 'processes', 'dask'])
@pytest.mark.parametrize('temperature', [0.0, 1.0])
def test_any_executor_writes_the_same_file(tmp_path, one_by_one, kind, temperature):
    space = drawn(WORLD, temperature=temperature)
    expected = precompute(space, tmp_path / 'here', executor=AtOnce()).path.read_bytes()
    if kind == 'dask':
        distributed = pytest.importorskip('distributed')
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None,
                                      ) as cluster, distributed.Client(cluster) as client:
            found = precompute(space, tmp_path / 'there', executor=client.get_executor())
    else:
        pool = ThreadPoolExecutor(3) if kind == 'threads' else ProcessPoolExecutor(
            2, mp_context=multiprocessing.get_context('spawn'))
        with pool:
            found = precompute(space, tmp_path / 'there', executor=pool)
    assert found.path.read_bytes() == expected


def test_progress_counts_to_the_end(tmp_path, one_by_one):
    seen = []
    precompute(drawn('....'), tmp_path / 'all', progress=lambda *counts: seen.append(counts))
    assert seen == [(done, 4) for done in range(5)]


@pytest.mark.parametrize('temperature', [0.0, 1.0])
def test_a_run_that_was_cut_off_goes_on(tmp_path, one_by_one, temperature):
    space = drawn(WORLD, temperature=temperature)
    path = tmp_path / 'all'
    with pytest.raises(CanceledError):
        precompute(space, path, executor=AtOnce(jobs=7), in_flight=1)
    begun = Ensemble(path)
    assert len(begun) == 7 and list(begun) == np.flatnonzero(space.free)[:7].tolist()
    assert begun.get(int(np.flatnonzero(space.free)[7])) is None
    n_jobs = np.count_nonzero(space.free) - 7
    seen = []
    worker = AtOnce(jobs=n_jobs)
    found = precompute(space, path, executor=worker, progress=lambda *now: seen.append(now))
    assert worker.jobs == 0 and seen[0][0] == 7 and len(found) == n_jobs + 7
    assert path.read_bytes() == precompute(space, tmp_path / 'other').path.read_bytes()
    assert len(precompute(space, path, executor=AtOnce(jobs=0))) == len(found), 'nothing to do'


def test_a_checkpoint_stops_it_and_keeps_what_is_done(tmp_path, one_by_one):
    calls = []

    def checkpoint():
        calls.append(1)
        if len(calls) > 3:
            raise CanceledError('enough')

    with pytest.raises(CanceledError):
        precompute(drawn('......'), tmp_path / 'all', executor=AtOnce(), in_flight=1,
                   checkpoint=checkpoint)
    assert len(Ensemble(tmp_path / 'all')) == 3


def test_few_jobs_are_in_flight(tmp_path, one_by_one):
    waiting = []

    class Counting(AtOnce):
        def submit(self, function, /, *arguments, **keywords):
            waiting.append(len(pending_now))
            return super().submit(function, *arguments, **keywords)

    pending_now = []
    real = precomputing._refill

    def watched(pending, *rest):
        pending_now[:] = list(pending)
        return real(pending, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precomputing, '_refill', watched)
        precompute(drawn('.' * 20), tmp_path / 'all', executor=Counting(), in_flight=3)
    assert len(waiting) == 20 and max(waiting) < 3


def test_some_cells(tmp_path):
    found = precompute(drawn('.#..'), tmp_path / 'some', [3, 0, 3])
    assert list(found) == [0, 3] and 2 not in found and 99 not in found and -1 not in found
    assert len(precompute(drawn('.#..'), tmp_path / 'none', [])) == 0
    for cells in ([1], [4], [-1]):
        with pytest.raises(EnsembleError, match=rf'{cells[0]} is no free cell'):
            precompute(drawn('.#..'), tmp_path / 'bad', cells)
    assert not (tmp_path / 'bad').exists()


def test_a_file_of_another_ensemble_is_not_touched(tmp_path):
    path = tmp_path / 'all'
    precompute(drawn('....'), path)
    before = path.read_bytes()
    for space, cells in ((drawn('...#'), None), (drawn('....', temperature=2.0), None),
                         (drawn('....', resolution=0.5), None), (drawn('....'), [1])):
        with pytest.raises(EnsembleError, match='was begun for another map'):
            precompute(space, path, cells)
    assert path.read_bytes() == before


@pytest.mark.parametrize('content', [b'no such thing\n', b'[]\n', b'{"format": "other"}\n',
                                     b'\xff\xfe', b'{', b'[' * 4000])
def test_no_ensemble(tmp_path, content):
    path = tmp_path / 'plan.yaml'
    path.write_bytes(content)
    for use in (Ensemble, lambda path: precompute(drawn('....'), path)):
        with pytest.raises(EnsembleError, match=r'plan\.yaml: is no ensemble'):
            use(path)
    assert path.read_bytes() == content


def test_a_header_with_wrong_fields(tmp_path):
    path = precompute(drawn('....'), tmp_path / 'all').path
    line, rest = path.read_bytes().split(b'\n', 1)
    for field, value in (('rows', -1), ('rows', 1.0), ('cols', 'x'), ('cols', 10**30),
                         ('n_targets', None), ('temperature', []), ('is_weighted', 2),
                         ('offsets', None), ('offsets', [1, [2], 3, 4])):
        path.write_bytes(json.dumps({**json.loads(line), field: value}).encode() + b'\n' + rest)
        with pytest.raises(EnsembleError, match=f"all: '{field}' in its header is wrong"):
            Ensemble(path)


@pytest.mark.parametrize('temperature', [0.0, 1.0])
def test_a_damaged_option_is_not_followed(tmp_path, temperature):
    found = precompute(drawn('....', temperature=temperature), tmp_path / 'all')
    for part in ('direction', 'checksum', 'log_z')[:3 if temperature else 2]:
        _, _, offset = found._layout.parts[part]
        content = bytearray(found.path.read_bytes())
        content[offset] ^= 1  # of the first option, to cell 0
        path = tmp_path / part
        path.write_bytes(content)
        damaged = Ensemble(path)
        assert damaged[1].path(3).tolist() == [3, 2, 1]
        with pytest.raises(EnsembleError, match=f'{part}: the option to cell 0 is damaged'):
            damaged[0]


def test_cut_off_file(tmp_path):
    path = precompute(drawn('....'), tmp_path / 'all').path
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(EnsembleError, match='all: the file is cut off'):
        Ensemble(path)


def test_unreadable_and_unwritable(tmp_path):
    for place, reason in ((tmp_path, 'Is a directory'), (tmp_path / 'no/all', 'No such file')):
        with pytest.raises(EnsembleError, match=f'cannot be written: {reason}|is no ensemble|'
                                                f'cannot be read: {reason}'):
            precompute(drawn('....'), place)
    with pytest.raises(EnsembleError, match='cannot be read: No such file'):
        Ensemble(tmp_path / 'gone')


def test_no_room_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(precomputing.shutil, 'disk_usage', lambda _: SimpleNamespace(free=8000))
    with pytest.raises(LimitError, match=r'4 options on 4 cells need 2\.46e-05 GB, the disk has'):
        precompute(drawn('....'), tmp_path / 'all')
    assert not (tmp_path / 'all').exists()


def test_a_disk_that_fills_up_loses_nothing(tmp_path, monkeypatch, one_by_one):
    real = precomputing._Writer._put
    written = []

    def put(self, part, row, values):
        if len(written) == 7:  # two options, and the field of the third
            raise OSError(errno.ENOSPC, 'No space left on device')
        written.append(part)
        real(self, part, row, values)

    with monkeypatch.context() as patch:
        patch.setattr(precomputing._Writer, '_put', put)
        with pytest.raises(EnsembleError, match='cannot be written: No space left'):
            precompute(drawn('....'), tmp_path / 'all', executor=AtOnce(), in_flight=1)
    assert list(Ensemble(tmp_path / 'all')) == [0, 1]
    assert len(precompute(drawn('....'), tmp_path / 'all')) == 4


def test_a_disk_that_is_really_full_loses_nothing(tmp_path, one_by_one):
    path = tmp_path / 'all'
    layout = Layout(header_of(drawn('....'), np.arange(4)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_up():
        # Room for one option and a half.
        resource.setrlimit(resource.RLIMIT_FSIZE, (layout.parts['direction'][2] + 6, limits[1]))

    try:
        with pytest.raises(EnsembleError, match='all: cannot be written: File too large'):
            precompute(drawn('....'), path, executor=AtOnce(), in_flight=1, checkpoint=fill_up)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(Ensemble(path)) == [0]
    assert list(precompute(drawn('....'), path)) == [0, 1, 2, 3]


def test_no_room_to_go_on(tmp_path, monkeypatch, one_by_one):
    path = tmp_path / 'all'
    with pytest.raises(CanceledError):
        precompute(drawn('....'), path, executor=AtOnce(jobs=1), in_flight=1)
    monkeypatch.setattr(precomputing.shutil, 'disk_usage', lambda _: SimpleNamespace(free=11))
    with pytest.raises(LimitError, match=r'3 options on 4 cells need 1\.2e-08 GB'):
        precompute(drawn('....'), path)
    monkeypatch.setattr(precomputing.shutil, 'disk_usage', lambda _: SimpleNamespace(free=12))
    assert len(precompute(drawn('....'), path)) == 4


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path, monkeypatch):
    path, link = tmp_path / 'all', tmp_path / 'link'
    link.symlink_to(path)

    def write(file, offset, content):
        assert file.name == f'{path}.part' and not path.exists()
        raise OSError(errno.ENOSPC, 'No space left on device')

    (tmp_path / 'all.part').write_bytes(b'of a run that was killed')
    with monkeypatch.context() as patch:
        patch.setattr(precomputing, '_write', write)
        with pytest.raises(EnsembleError, match='link: cannot be written: No space left'):
            precompute(drawn('....'), link)
    assert list(tmp_path.iterdir()) == [link]
    assert len(precompute(drawn('....'), link)) == len(Ensemble(path)) == 4
    assert link.is_symlink() and not (tmp_path / 'all.part').exists()


class KilledWorker(Exception):
    """What Dask calls it."""


@pytest.mark.parametrize('error', [BrokenProcessPool('terminated abruptly'), KilledWorker('job')])
def test_a_worker_that_dies(tmp_path, one_by_one, error):
    class Mortal(AtOnce):
        def submit(self, function, /, *arguments, **keywords):
            if self.jobs == 0:
                raise error
            return super().submit(function, *arguments, **keywords)

    path = tmp_path / 'all'
    with pytest.raises(EnsembleError, match=r'all: a worker died .* again to go on'):
        precompute(drawn('....'), path, executor=Mortal(jobs=2), in_flight=1)
    assert list(Ensemble(path)) == [0, 1]


@pytest.mark.parametrize('in_flight', [0, -1])
def test_no_job_in_flight_solves_nothing(tmp_path, in_flight):
    with pytest.raises(EnsembleError, match=f'in_flight: must be at least 1, got {in_flight}'):
        precompute(drawn('....'), tmp_path / 'all', in_flight=in_flight)


def test_large_maps_share_memory(tmp_path):
    """Opening a file reads no field."""
    space = BaseSpace(OccupancyMap(np.zeros((300, 300), dtype=np.int8), 1.0))
    found = precompute(space, tmp_path / 'some', [0, 100, 4000])
    base = found[100].direction
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
