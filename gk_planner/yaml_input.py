"""The one way YAML files are read, and the checks that all readers of fields share.

A file is untrusted: its events are counted before the node graph is composed, and every node is
checked (tag, key, duplicates, expanded size) before its value is made. Aliases are expanded in
number only, size(node) = 1 + sum of size(child), so a small file cannot stand for a huge one.
"""

from collections.abc import Collection, Mapping
import difflib
import math
import numbers
import os
import re
import reprlib
from typing import Any, NoReturn

import numpy as np
import shapely
import yaml
from yaml.constructor import SafeConstructor

from gk_planner.errors import InputError

MAX_NODES = 200_000
MAX_DEPTH = 100

Point = tuple[float, float]
Points = tuple[Point, ...]

_Loader: Any = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
_STANDARD = 'tag:yaml.org,2002:'
_SCALARS = frozenset(_STANDARD + kind for kind in
                     ('str', 'int', 'float', 'bool', 'null', 'timestamp'))
_NAME = re.compile(r'[A-Za-z_][A-Za-z0-9_.]*')
# YAML 1.1, and so PyYAML, wants a point and a sign in 1.0e-3; everyone else writes 1e-3.
_PLAIN_NUMBER = re.compile(r'[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+')
_TAG = re.compile(r'(?:&\S+\s+)?(![^\s,\]}]*)')
_TAGGED_FIELD = re.compile(r'([A-Za-z_][A-Za-z0-9_.]*)\s*:\s+(![^\s,\]}]*)[^\n]*\Z')


class _Shortener(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict = 2, 4, 4, 3
        self.maxstring = self.maxother = self.maxlong = 60

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to print integers of some thousand digits.
        return super().repr_int(x, level) if x.bit_length() < 1000 else 'a huge integer'


_shortener = _Shortener()


def shorten(value: object) -> str:
    """Return the value as one line of at most about a hundred characters, for messages."""
    text = ' '.join(_shortener.repr(value).split())
    return text if len(text) <= 100 else text[:97] + '...'


def load_mapping(path: str | os.PathLike[str], error: type[InputError],
                 max_bytes: int = 8 * 2**20) -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping with names as keys.

    Parameters
    ----------
    path : str or os.PathLike
        The file; messages start with it as given.
    error : type
        The subclass of InputError that failures raise.
    max_bytes : int
        Files larger than this are refused before they are read.

    Returns
    -------
    dict
        Plain dictionaries, lists and scalars; aliased values are shared objects.

    Raises
    ------
    InputError
        As the given subclass: the file is missing, too large, not UTF-8, not YAML, several
        documents, not a mapping, too deep or too large when its aliases are expanded, or has
        duplicate keys, keys that are no strings, or tags.

    """
    file = os.fspath(path)
    text = _read_text(file, error, max_bytes)
    try:
        _check_events(text, file, error)
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as problem:
        _fail_syntax(problem, text, file, error)
    value = None if root is None else _Reader(text, file, error).read(root, '')[0]
    if not isinstance(value, dict):
        raise error(f'{file}: the top level must be a mapping (field: value), '
                    f'found {"nothing" if value is None else shorten(value)}')
    return value


def _read_text(file: str, error: type[InputError], max_bytes: int) -> str:
    try:
        size = os.stat(file).st_size
        content = b''
        if size <= max_bytes:
            with open(file, 'rb') as stream:
                # A device or a growing file has more bytes than its size says.
                content = stream.read(max_bytes + 1)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, 'strerror', None) or str(problem)
        raise error(f'{file}: cannot be read: {reason}') from problem
    if max(size, len(content)) > max_bytes:
        raise error(f'{file}: larger than {max_bytes} bytes; no file of this kind should be')
    try:
        return content.decode('utf-8-sig')
    except UnicodeDecodeError as problem:
        raise error(f'{file}: not UTF-8 text (byte {problem.start})') from problem


def _check_events(text: str, file: str, error: type[InputError]) -> None:
    # Composing recurses, in C without a guard, and takes memory for each node.
    depth = nodes = documents = 0
    unused: dict[str, int] = {}
    for event in yaml.parse(text, Loader=_Loader):
        documents += isinstance(event, yaml.DocumentStartEvent)
        nodes += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if documents > 1:
            raise error(f'{file}: holds several YAML documents; one is expected')
        if nodes > MAX_NODES:
            raise error(f'{file}: more than {MAX_NODES} values')
        if depth > MAX_DEPTH:
            raise error(f'{file}: nested deeper than {MAX_DEPTH} levels')
        if isinstance(event, yaml.AliasEvent):
            unused.pop(event.anchor or '', None)
        elif isinstance(event, yaml.ScalarEvent) and not event.tag and event.anchor and (
                event.start_mark):
            unused[event.anchor] = event.start_mark.line + 1
    # In "&coffee & mail" the anchor would be dropped without a word.
    for anchor, line in unused.items():
        raise error(f'{file}: YAML reads {shorten("&" + anchor)} as an anchor, because it starts '
                    f'with &, and nothing refers to it; quote the whole value (line {line})')


def _fail_syntax(problem: yaml.YAMLError, text: str, file: str,
                 error: type[InputError]) -> NoReturn:
    mark = getattr(problem, 'problem_mark', None)
    if mark is None:
        reason = ' '.join(str(problem).split())
        raise error(f'{file}: not valid YAML: {reason}') from problem
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ''
    first = max(0, mark.column - 60)
    detail = f'{line[first:first + 120]}\n{" " * (mark.column - first)}^'
    tagged = _TAGGED_FIELD.search(text[max(0, mark.index - 500):mark.index])
    if tagged:
        message = f'{tagged[1]}: {_tag_hint(tagged[2])} (line {mark.line + 1})'
    else:
        parts = (getattr(problem, 'context', None), getattr(problem, 'problem', None))
        message = (f'line {mark.line + 1}: not valid YAML: '
                   + ', '.join(' '.join(part.split()) for part in parts if part))
    raise error(f'{file}: {message}', detail=detail) from problem


def _tag_hint(tag: str) -> str:
    return (f'YAML reads {shorten(tag)} as a tag, because it starts with !; '
            "quote the whole value, or write 'not'")


class _Reader:
    """Checks the nodes of one file and makes their values, each node once."""

    def __init__(self, text: str, file: str, error: type[InputError]) -> None:
        self.text, self.file, self.error = text, file, error
        self.constructor = SafeConstructor()
        # value, expanded size and height by node; None while a node is being read
        self.memo: dict[int, tuple[Any, int, int] | None] = {}

    def fail(self, node: yaml.Node, field: str, reason: str) -> NoReturn:
        where = f'{self.file}: {field}' if field else self.file
        raise self.error(f'{where}: {reason} (line {node.start_mark.line + 1})')

    def read(self, node: yaml.Node, field: str) -> tuple[Any, int, int]:
        """Return value, expanded size and height of a node."""
        if id(node) in self.memo:
            known = self.memo[id(node)]
            if known is None:
                self.fail(node, field, 'an alias stands inside the value that it names')
            return known
        self.memo[id(node)] = None
        tag = _TAG.match(self.text, node.start_mark.index)
        # A lone ! is dropped by the parser, which would turn "! coffee" into "coffee".
        if tag and not tag[1].startswith('!!'):
            self.fail(node, field, _tag_hint(tag[1]))
        if isinstance(node, yaml.MappingNode) and node.tag == _STANDARD + 'map':
            result = self.read_mapping(node, field)
        elif isinstance(node, yaml.SequenceNode) and node.tag == _STANDARD + 'seq':
            result = self.join(
                node, field, [self.read(item, f'{field}[{index}]')
                              for index, item in enumerate(node.value)])
        else:
            result = self.read_scalar(node, field), 1, 1
        self.memo[id(node)] = result
        return result

    def read_mapping(self, node: yaml.MappingNode, field: str) -> tuple[Any, int, int]:
        children: dict[str, tuple[Any, int, int]] = {}
        for key_node, value_node in node.value:
            key = self.read(key_node, field)[0]
            if not isinstance(key, str):
                self.fail(key_node, field, f'YAML reads the key {shorten(key_node.value)} as '
                          f'{type(key).__name__}; keys are names: quote it')
            shown = key if _NAME.fullmatch(key) and len(key) < 60 else shorten(key)
            child_field = f'{field}.{shown}' if field else shown
            if key in children:
                self.fail(key_node, child_field, 'this key is given twice')
            children[key] = self.read(value_node, child_field)
        _, size, height = self.join(node, field, list(children.values()))
        return {key: child[0] for key, child in children.items()}, size, height

    def join(self, node: yaml.Node, field: str,
             children: list[tuple[Any, int, int]]) -> tuple[Any, int, int]:
        size = 1 + sum(child[1] for child in children)
        height = 1 + max((child[2] for child in children), default=0)
        if size > MAX_NODES:
            self.fail(node, field, f'its aliases stand for more than {MAX_NODES} values')
        if height > MAX_DEPTH:
            self.fail(node, field, f'its aliases nest deeper than {MAX_DEPTH} levels')
        return [child[0] for child in children], size, height

    def read_scalar(self, node: yaml.Node, field: str) -> Any:
        kind = node.tag.removeprefix(_STANDARD)
        if node.tag not in _SCALARS:
            self.fail(node, field, f'YAML reads this as {shorten(kind)}, which has no meaning '
                      'here; quote it if it is text')
        length = node.end_mark.index - node.start_mark.index  # with a tag, if it has one
        is_plain = isinstance(node, yaml.ScalarNode) and length == len(node.value)
        if is_plain and kind == 'str' and _PLAIN_NUMBER.fullmatch(node.value):
            return float(node.value)
        try:
            return self.constructor.construct_object(node)
        except (ValueError, KeyError, yaml.YAMLError):
            self.fail(node, field, f'{shorten(node.value)} cannot be read as a YAML {kind}; '
                      'quote it if it is text')


def mapping(value: object, where: str, error: type[InputError]) -> Mapping[str, Any]:
    """Return the value if it is a mapping."""
    if not isinstance(value, Mapping):
        raise error(f'{where}: expected a mapping (field: value), got {shorten(value)}')
    return value


def sequence(value: object, where: str, error: type[InputError]) -> list[Any]:
    """Return a list, tuple or array as a list."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise error(f'{where}: expected a list, got {shorten(value)}')
    return list(value)


def check_keys(fields: Mapping[str, Any], known: Collection[str], where: str,
               error: type[InputError]) -> None:
    """Refuse keys that are not known, naming the nearest right one."""
    for key in fields:
        if key not in known:
            near = difflib.get_close_matches(str(key)[:100], known, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ''
            raise error(f'{where}: unknown key {shorten(key)}; {hint}'
                        f'known keys: {", ".join(known)}')


def required(fields: Mapping[str, Any], key: str, where: str, error: type[InputError]) -> Any:
    """Return the value of a key that must be there."""
    if key not in fields:
        raise error(f"{where}: the key '{key}' is missing")
    return fields[key]


def number(value: object, where: str, error: type[InputError], *,
           low: float | None = None, above: float | None = None) -> float:
    """Return a finite number, at least ``low`` and greater than ``above`` where given."""
    if isinstance(value, str):
        raise error(f'{where}: expected a number, got the text {shorten(value)}; '
                    'write it without quotes')
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise error(f'{where}: expected a number, got {shorten(value)}')
    try:
        result = float(value)
    except OverflowError as problem:
        raise error(f'{where}: the number is too large') from problem
    if not math.isfinite(result):
        raise error(f'{where}: must be finite, got {shorten(value)}')
    if low is not None and result < low:
        raise error(f'{where}: must be at least {low:g}, got {shorten(value)}')
    if above is not None and result <= above:
        raise error(f'{where}: must be greater than {above:g}, got {shorten(value)}')
    return result


def name(value: object, where: str, error: type[InputError]) -> str:
    """Return a name: a string that matches ``[A-Za-z_][A-Za-z0-9_.]*``."""
    if not isinstance(value, str):
        kind = 'nothing' if value is None else type(value).__name__
        raise error(f'{where}: expected a name, got {shorten(value)}; YAML reads this as '
                    f'{kind}; quote it')
    if not _NAME.fullmatch(value):
        raise error(f'{where}: {shorten(value)} is not a name: letters, digits, _ and . are '
                    'allowed, and the first must be a letter or _')
    return value


def point(value: object, where: str, error: type[InputError]) -> Point:
    """Return a point ``(x, y)`` in metres."""
    parts = sequence(value, where, error)
    if len(parts) != 2:
        raise error(f'{where}: expected a point [x, y], got {shorten(value)}')
    return number(parts[0], f'{where}[0]', error), number(parts[1], f'{where}[1]', error)


def _points(value: object, where: str, error: type[InputError]) -> Points:
    return tuple(point(item, f'{where}[{index}]', error)
                 for index, item in enumerate(sequence(value, where, error)))


def polygon(value: object, where: str, error: type[InputError]) -> Points:
    """Return the corners of a simple polygon, without a closing point equal to the first."""
    corners = _points(value, where, error)
    if len(corners) > 1 and corners[0] == corners[-1]:
        corners = corners[:-1]
    if len(corners) < 3:
        raise error(f'{where}: a polygon needs at least 3 different points, got {len(corners)}')
    with np.errstate(all='ignore'):
        shape = shapely.Polygon(corners)
        area, reason = shape.area, shapely.is_valid_reason(shape)
    if reason != 'Valid Geometry' or not 0 < area < math.inf:
        raise error(f'{where}: a polygon must enclose an area and not cross itself: '
                    f'{reason}, area {area:g}')
    return corners


def polyline(value: object, where: str, error: type[InputError]) -> Points:
    """Return the points of a polyline; each differs from the one before."""
    points = _points(value, where, error)
    if len(points) < 2:
        raise error(f'{where}: a polyline needs at least 2 points, got {len(points)}')
    for index in range(1, len(points)):
        if points[index] == points[index - 1]:
            raise error(f'{where}[{index}]: equals the point before it; leave one of them out')
    return points
