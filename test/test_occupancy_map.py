"""Map files as map_server reads them, and the geometry of cells."""

import math
import warnings

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
import numpy as np
from PIL import Image
import pytest

from gk_planner.errors import MapError
from gk_planner.occupancy_map import OccupancyMap

HEADER = {'image': 'm.pgm', 'resolution': 0.5, 'origin': [0, 0, 0]}


def write(folder, image, name='m.pgm', **fields):
    """Write a map whose image is bytes or a Pillow image and return the YAML path."""
    if isinstance(image, bytes):
        (folder / name).write_bytes(image)
    elif image is not None:
        image.save(folder / name)
    header = {**HEADER, 'image': name, **fields}
    path = folder / 'map.yaml'
    path.write_text(''.join(f'{key}: {value}\n' for key, value in header.items()
                            if value is not None))
    return path


def pgm(shades):
    rows, cols = np.shape(shades)
    return f'P5\n{cols} {rows}\n255\n'.encode() + np.array(shades, dtype=np.uint8).tobytes()


def read(folder, image, name='m.pgm', **fields):
    return OccupancyMap.from_file(write(folder, image, name, **fields)).data.tolist()


def refuse(folder, image, name='m.pgm', **options):
    path = write(folder, image, name, **options)
    with pytest.raises(MapError) as caught:
        OccupancyMap.from_file(path)
    assert caught.value.message.startswith(f'{path}: ')
    assert '\n' not in caught.value.message
    return caught.value.message.removeprefix(f'{path}: ')


def test_trinary_defaults_and_flip(tmp_path):
    # p = 1 - shade / 255: 206 -> 0.192 free, 205 -> 0.19608 unknown, 90 -> 0.647, 89 -> 0.651
    assert read(tmp_path, pgm([[0, 254, 255], [206, 205, 90], [89, 128, 0]])) == [
        [100, -1, 100], [0, -1, -1], [100, 0, 0]]


def test_negate(tmp_path):
    assert read(tmp_path, pgm([[0, 255, 128]]), negate=1) == [[0, 100, -1]]
    assert read(tmp_path, pgm([[0, 255, 128]]), negate='true') == [[0, 100, -1]]
    assert read(tmp_path, pgm([[0, 255, 128]]), negate=0) == [[100, 0, -1]]


def test_scale(tmp_path):
    # negate: p = shade / 255; 100 (p - 0.2) / 0.6
    shades = [[0, 51, 52, 128, 203, 204, 255]]
    expected = [[0, 0, 1, 50, 99, 100, 100]]
    assert read(tmp_path, pgm(shades), negate=1, mode='scale',
                free_thresh=0.2, occupied_thresh=0.8) == expected


def test_raw(tmp_path):
    assert read(tmp_path, pgm([[0, 1, 99, 100, 101, 127, 128, 255]]), mode='raw', negate=1) == [
        [0, 1, 99, 100, -1, -1, -1, -1]]


@pytest.mark.parametrize('mode', ['trinary', 'scale'])
def test_thresholds_are_inclusive(tmp_path, mode):
    assert read(tmp_path, pgm([[0, 255]]), mode=mode, negate=1,
                free_thresh=0, occupied_thresh=1) == [[0, 100]]


def test_plain_pgm_and_other_maximum(tmp_path):
    assert read(tmp_path, b'P2\n# made by hand\n3 1\n255\n0 255 128\n') == [[100, 0, -1]]
    assert read(tmp_path, b'P2\n3 1\n15\n0 15 8\n') == [[100, 0, -1]]
    assert read(tmp_path, b'P5\n3 1\n65535\n' + bytes([0, 0, 255, 255, 128, 0])) == [
        [100, 0, -1]]


@pytest.mark.parametrize('mode', ['1', 'L', 'LA', 'P', 'RGB', 'RGBA', 'I;16'])
def test_png_modes(tmp_path, mode):
    if mode == 'I;16':
        image = Image.fromarray(np.array([[0, 65535, 0]], dtype=np.uint16))
    else:
        image = Image.fromarray(np.array([[0, 255, 0]], dtype=np.uint8)).convert(mode)
    assert image.mode == mode
    assert read(tmp_path, image, 'm.png') == [[100, 0, 100]]


def test_sixteen_bits_are_rounded_to_eight(tmp_path):
    wide = np.array([[0, 128, 129, 257 * 100 + 128, 257 * 100 + 129]], dtype=np.uint16)
    assert read(tmp_path, Image.fromarray(wide), 'm.png', mode='raw') == [[0, 0, 1, 100, -1]]


def test_colours_have_the_luma_of_map_server(tmp_path):
    # 0.2127 R + 0.7152 G + 0.0722 B, rounded
    colours = np.array([[[255, 0, 0], [0, 100, 0], [0, 0, 255], [70, 70, 70]]], dtype=np.uint8)
    assert read(tmp_path, Image.fromarray(colours), 'm.png', mode='raw') == [[54, 72, 18, 70]]


def test_transparent_pixels_are_unknown(tmp_path):
    pixels = np.array([[[0, 255], [0, 254], [255, 0], [255, 255]]], dtype=np.uint8)
    image = Image.fromarray(pixels, mode='LA')
    assert read(tmp_path, image, 'm.png') == [[100, -1, -1, 0]]
    assert read(tmp_path, image, 'm.png', mode='scale') == [[100, -1, -1, 0]]
    assert read(tmp_path, image, 'm.png', mode='raw') == [[0, 0, -1, -1]]


@pytest.mark.parametrize('dtype', [np.uint8, np.uint16])
def test_transparent_shade(tmp_path, dtype):
    image = Image.fromarray(np.array([[0, 7, np.iinfo(dtype).max]], dtype=dtype))
    image.save(tmp_path / 'm.png', transparency=7)
    assert read(tmp_path, None, 'm.png') == [[100, -1, 0]]


def test_transparent_palette_entry(tmp_path):
    image = Image.new('P', (3, 1))
    image.putpalette([0, 0, 0, 255, 255, 255, 0, 0, 0])
    image.putdata([0, 1, 2])
    image.save(tmp_path / 'm.png', transparency=2)
    assert read(tmp_path, None, 'm.png') == [[100, 0, -1]]


def test_image_in_another_folder_and_in_home(tmp_path, monkeypatch):
    (tmp_path / 'images').mkdir()
    assert read(tmp_path, pgm([[0]]), 'images/m.pgm') == [[100]]
    monkeypatch.setenv('HOME', str(tmp_path / 'images'))
    assert read(tmp_path, None, '~/m.pgm') == [[100]]
    assert read(tmp_path, None, str(tmp_path / 'images' / 'm.pgm')) == [[100]]


def test_header(tmp_path):
    grid_map = OccupancyMap.from_file(
        write(tmp_path, pgm([[0, 0, 0], [0, 0, 0]]), origin=[-1, 2, 0.5]))
    assert (grid_map.rows, grid_map.cols) == (2, 3)
    assert grid_map.resolution == 0.5
    assert grid_map.origin == (-1.0, 2.0, 0.5)


@pytest.mark.parametrize('field, value, reason', [
    ('resolution', 0, 'greater than 0'), ('resolution', -1, 'greater than 0'),
    ('resolution', '.nan', 'finite'), ('resolution', '"0.5"', 'number'),
    ('resolution', None, "'resolution' is missing"), ('image', None, "'image' is missing"),
    ('origin', None, "'origin' is missing"), ('image', '""', 'file name'), ('image', 3, 'file'),
    ('origin', '[0, 0]', '[x, y, yaw]'), ('origin', '[0, 0, .inf]', 'origin[2]: must be finite'),
    ('origin', '[0, 0, 0, 0]', '[x, y, yaw]'), ('origin', 3, 'list'),
    ('negate', 2, '0 or 1'), ('negate', '[]', '0 or 1'), ('negate', 1.0, '0 or 1'),
    ('mode', 'ternary', 'trinary, scale, raw'), ('mode', '[]', 'trinary, scale, raw'),
    ('occupied_thresh', 1.5, 'at most 1'), ('free_thresh', -0.1, 'at least 0'),
    ('free_thresh', 0.65, 'less than occupied_thresh'),
    ('occupied_tresh', 0.65, "did you mean 'occupied_thresh'"),
    ('moed', 'raw', "did you mean 'mode'"), ('Mode', 'raw', "did you mean 'mode'"),
])
def test_wrong_fields(tmp_path, field, value, reason):
    path = write(tmp_path, pgm([[0]]), **{field: value} if field != 'image' else {})
    if field == 'image':
        path.write_text(path.read_text().replace(
            'image: m.pgm\n', '' if value is None else f'image: {value}\n'))
    with pytest.raises(MapError) as caught:
        OccupancyMap.from_file(path)
    assert caught.value.message.startswith(f'{path}: ')
    assert reason in caught.value.message
    assert field in caught.value.message


def test_what_map_server_reads(tmp_path):
    path = write(tmp_path, pgm([[100, 101]]), mode='Raw', resolution='5e-2',
                 origin='[-1e-05, 1.5E+1, 0]', floor='ground', origin_frame='map')
    grid_map = OccupancyMap.from_file(path)
    assert grid_map.data.tolist() == [[100, -1]]
    assert (grid_map.resolution, grid_map.origin) == (0.05, (-1e-5, 15.0, 0.0))


def test_missing_image_and_directory(tmp_path):
    assert 'No such file' in refuse(tmp_path, None)
    (tmp_path / 'm.pgm').mkdir()
    assert 'directory' in refuse(tmp_path, None)


def test_missing_yaml(tmp_path):
    with pytest.raises(MapError, match='No such file'):
        OccupancyMap.from_file(tmp_path / 'map.yaml')


@pytest.mark.parametrize('image', [
    b'', b'P', b'P5', b'P5\n2 2\n255\n', b'P5\n2 2\n255\nabc', b'P2\n2 2\n255\n0 0 0\n',
    b'P2\n2 2\n15\n0 0 0\n', b'P5\n2 2\n15\nabc', b'P5\n0 2\n255\n', b'P5\n2 0\n255\n',
    b'P5\n-2 2\n255\nabcd', b'P5\n2 x\n255\nabcd', b'P5\n2 2\n0\nabcd', b'P5\n2 2\n70000\nabcd',
    b'P2\n2 2\n255\n0 0 0 999\n', b'P2\n2 2\n255\n0 0 0 x\n', b'GIF89a', b'\x89PNG',
    b'Pf\n1 1\n-1.0\n\0\0\0\0', b'hello'])
def test_not_an_image(tmp_path, image):
    assert refuse(tmp_path, image).startswith('image: ')


def test_truncated_png(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (50, 50), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / 'm.png')
    content = (tmp_path / 'm.png').read_bytes()
    for size in (20, 100, 1000, len(content) - 30):
        assert refuse(tmp_path, content[:size], 'm.png').startswith('image: ')


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_images_give_a_map_or_a_map_error(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    kind = data.draw(st.sampled_from(['L', 'P', 'RGBA', 'pgm']))
    if kind == 'pgm':
        content = bytearray(pgm([[0, 100], [200, 255]]))
    else:
        Image.new(kind, (4, 4)).save(folder / 'm.png')
        content = bytearray((folder / 'm.png').read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = write(folder, bytes(content), 'm.png')
    try:
        OccupancyMap.from_file(path, max_cells=1000)
    except MapError as error:
        assert error.message.startswith(f'{path}: image: ')
        assert '\n' not in error.message


@pytest.mark.parametrize('size', ['100000 100000', '10000 9000'])
def test_large_image_is_refused_before_decoding(tmp_path, size):
    path = write(tmp_path, f'P5\n{size}\n255\n'.encode())
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        with pytest.raises(MapError, match=r'image: .* pixels; at most 1000 are allowed'):
            OccupancyMap.from_file(path, max_cells=1000)


def test_no_limit_but_max_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, 'MAX_IMAGE_PIXELS', 3)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert len(read(tmp_path, pgm([[0] * 4] * 4))) == 4
        path = write(tmp_path, Image.new('L', (4, 4)), 'm.png')
        assert OccupancyMap.from_file(path, max_cells=16).rows == 4
        with pytest.raises(MapError):
            OccupancyMap.from_file(path, max_cells=15)


def test_data_is_a_read_only_copy():
    source = np.zeros((2, 3), dtype=np.int64)
    grid_map = OccupancyMap(source, 1.0)
    source[0, 0] = 100
    assert grid_map.data[0, 0] == 0
    assert grid_map.data.dtype == np.int8
    with pytest.raises(ValueError, match='read-only'):
        grid_map.data[0, 0] = 1
    assert type(grid_map.rows) is int


@pytest.mark.parametrize('data, resolution, origin', [
    (np.zeros(3, dtype=int), 1, (0, 0, 0)), (np.zeros((0, 3), dtype=int), 1, (0, 0, 0)),
    (np.zeros((2, 2)), 1, (0, 0, 0)), ([[101]], 1, (0, 0, 0)), ([[-2]], 1, (0, 0, 0)),
    ([[300]], 1, (0, 0, 0)), ([['a']], 1, (0, 0, 0)),
    ([[0]], 0, (0, 0, 0)), ([[0]], math.inf, (0, 0, 0)), ([[0]], '1', (0, 0, 0)),
    ([[0]], 1, (0, 0)), ([[0]], 1, (0, 0, math.nan)),
])
def test_validation(data, resolution, origin):
    with pytest.raises(MapError, match=r'^(data|resolution|origin)'):
        OccupancyMap(data, resolution, origin)


def test_cells_without_yaw():
    grid_map = OccupancyMap(np.zeros((3, 4), dtype=int), 0.1, (-1.0, 2.0, 0.0))
    assert grid_map.cell_of(-1.0, 2.0) == (0, 0)
    assert grid_map.cell_of(-0.7, 2.2) == (2, 3)  # on an edge, 2.9999999999999996 in floats
    assert grid_map.cell_of(-0.6, 2.0) is None
    assert grid_map.cell_of(-1.01, 2.0) is None
    assert grid_map.cell_of(-1.0, 2.3) is None
    for nowhere in (math.nan, math.inf, 1e308):
        assert grid_map.cell_of(nowhere, 2.0) is None
    assert grid_map.centre_of(2, 3) == pytest.approx((-0.65, 2.25))
    assert all(type(value) is float for value in grid_map.centre_of(2, 3))
    assert all(type(value) is int for value in grid_map.cell_of(-1.0, 2.0))


def test_cells_with_a_quarter_turn():
    grid_map = OccupancyMap(np.zeros((3, 4), dtype=int), 1.0, (10.0, 20.0, math.pi / 2))
    # columns run along +y, rows along -x
    assert grid_map.centre_of(0, 2) == pytest.approx((9.5, 22.5))
    assert grid_map.centre_of(2, 0) == pytest.approx((7.5, 20.5))
    assert grid_map.cell_of(7.5, 23.5) == (2, 3)
    assert grid_map.cell_of(9.0, 21.0) == (1, 1)
    assert grid_map.cell_of(10.5, 20.5) is None


@given(st.floats(-10, 10), st.floats(0.01, 2), st.floats(-100, 100), st.floats(-100, 100),
       st.integers(0, 19), st.integers(0, 29), st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_geometry_is_inverted(yaw, resolution, x, y, row, col, du, dv):
    grid_map = OccupancyMap(np.zeros((20, 30), dtype=int), resolution, (x, y, yaw))
    inside = grid_map.to_world([[col + du, row + dv]])
    assert grid_map.to_grid(inside) == pytest.approx(np.array([[col + du, row + dv]]), abs=1e-9)
    assert grid_map.cell_of(*inside[0]) == (row, col)
    assert grid_map.cell_of(*grid_map.centre_of(row, col)) == (row, col)


@settings(max_examples=50, deadline=None)
@given(st.one_of(
    hnp.arrays(np.int8, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.integers(-1, 100)),
    hnp.arrays(np.int8, hnp.array_shapes(min_dims=2, max_dims=2),
               elements=st.sampled_from([-1, 0, 100]))),
       st.floats(1e-9, 1e9), st.tuples(*[st.floats(-1e20, 1e20)] * 3))
def test_saved_map_reads_back(tmp_path_factory, data, resolution, origin):
    path = tmp_path_factory.getbasetemp() / 'saved.yaml'
    OccupancyMap(data, resolution, origin).save(path)
    grid_map = OccupancyMap.from_file(path)
    assert grid_map.data.tolist() == data.tolist()
    assert (grid_map.resolution, grid_map.origin) == (resolution, origin)
    trinary = set(data.flat) <= {-1, 0, 100}
    assert ('mode: trinary' in path.read_text()) == trinary


def test_save_fails_with_a_map_error(tmp_path):
    grid_map = OccupancyMap([[0]], 1.0)
    with pytest.raises(MapError, match='cannot be written'):
        grid_map.save(tmp_path / 'none' / 'map.yaml')
    with pytest.raises(MapError, match='name of its YAML file'):
        grid_map.save(tmp_path / 'map.pgm')
