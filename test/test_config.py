"""Tests of the configuration: defaults, types, ranges, and names that do not exist."""

import dataclasses
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from gk_planner import Config
from gk_planner.errors import ConfigError
from gk_planner.yaml_input import shorten

FIELDS = dataclasses.fields(Config)


def test_defaults_of_the_contract():
    config = Config()
    assert config.connectivity == 8
    assert config.occupied_threshold == 65
    assert (config.robot_radius, config.snap_radius, config.option_cost) == (0, 0, 0)
    assert config.temperature == 0
    assert config.unknown_is_free is False
    assert config.annotations_file == ''


@pytest.mark.parametrize('spec', FIELDS, ids=lambda spec: spec.name)
def test_every_field_has_a_description_and_a_sound_default(spec):
    assert spec.metadata['description']
    assert Config(**{spec.name: spec.default}) == Config()
    assert type(getattr(Config(), spec.name)) is type(spec.default)


@pytest.mark.parametrize(('name', 'value', 'words'), [
    ('connectivity', 6, 'one of'),
    ('robot_radius', -0.1, 'at least 0'),
    ('robot_radius', float('nan'), 'finite'),
    ('robot_radius', float('inf'), 'finite'),
    ('robot_radius', '0.1', 'expected float'),
    ('robot_radius', True, 'expected float'),
    ('robot_radius', None, 'expected float'),
    ('unknown_is_free', 1, 'expected bool'),
    ('occupied_threshold', 0, 'at least 1'),
    ('occupied_threshold', 101, 'at most 100'),
    ('occupied_threshold', 65.0, 'expected int'),
    ('occupied_threshold', True, 'expected int'),
    ('clearance_weight', 0.5, 'at least 1'),
    ('annotations_file', 3, 'expected str'),
    ('temperature', -1, 'at least 0'),
    ('temperature', 10**400, 'finite'),
    ('task_memory', -1, 'at least 0'),
    ('time_limit', 0.0, 'at least 0.1'),
    ('max_iterations', 0, 'at least 1'),
])
def test_a_wrong_value_is_refused_with_its_field(name, value, words):
    with pytest.raises(ConfigError, match=words) as caught:
        Config(**{name: value})
    assert caught.value.message.startswith(f'{name}: ')
    assert shorten(value) in caught.value.message


@pytest.mark.parametrize('spec', FIELDS, ids=lambda spec: spec.name)
def test_the_ends_of_a_range_belong_to_it(spec):
    for end in (spec.metadata['low'], spec.metadata['high'], *spec.metadata['choices']):
        if end is not None:
            assert getattr(Config(**{spec.name: end}), spec.name) == end


@given(st.integers(0, 10**6))
def test_whole_numbers_are_fine_for_metres(value):
    radius = Config(robot_radius=value).robot_radius
    assert radius == value
    assert type(radius) is float


def test_numbers_of_numpy_and_paths_are_fine():
    config = Config(connectivity=np.int64(4), robot_radius=np.float32(0.5),
                    annotations_file=Path('floor.yaml'))
    assert config == Config(connectivity=4, robot_radius=0.5, annotations_file='floor.yaml')
    assert type(config.connectivity) is int and type(config.annotations_file) is str
    assert Config(unknown_is_free=np.bool_(True)).unknown_is_free is True


def test_a_path_is_taken_as_the_system_does(tmp_path):
    (tmp_path / 'floor.yaml').touch()
    entry, = os.scandir(tmp_path)
    assert Config(annotations_file=entry).annotations_file == str(tmp_path / 'floor.yaml')
    with pytest.raises(ConfigError, match='annotations_file: expected str'):
        Config(annotations_file=next(os.scandir(os.fsencode(tmp_path))))


@pytest.mark.parametrize('name', ['robot_radius', 'connectivity'])
def test_a_number_too_long_to_print_is_refused(name):
    with pytest.raises(ConfigError, match=name):
        Config(**{name: 10 ** 5000})


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="'robot_raduis'; did you mean 'robot_radius'"):
        Config.from_fields({'robot_raduis': 1.0})
    with pytest.raises(ConfigError, match=r"unknown setting 'zzz'$"):
        Config.from_fields({'zzz': 1})


def test_from_fields_checks_values_too():
    assert Config.from_fields({'connectivity': 4}) == Config(connectivity=4)
    with pytest.raises(ConfigError, match='connectivity'):
        Config.from_fields({'connectivity': '4'})


def test_it_is_frozen_and_takes_keywords_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().connectivity = 4
    with pytest.raises(TypeError):
        Config(4)
    assert hash(Config()) == hash(Config())
