"""What clusters are made of: paths, the content of files, and objects as dictionaries; how they are read together, and
what is wrong with them.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from kai_sched.files.errors import BrokenInput
from kai_sched.files.load import SimulationCase, load
from kai_sched.files.sources import STDIN, expand, read_bytes
from kai_sched.library import selector_warnings
from kai_sched.model.field_errors import shown
from kai_sched.model.problems import Problem

# What the functions of this package take; the last one is a list of the others.
Source = (
    str | os.PathLike[str] | bytes | Mapping[str, Any] | Iterable[str | os.PathLike[str] | bytes | Mapping[str, Any]]
)
_FORMS = "a path, the content of a file as bytes, an object as a dictionary, or a list of these"
_SHOWN_MAX = 10


class InputError(ValueError):
    """The input cannot be used. ``problems`` says why, one finding each with file, object, field and remedy."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(each) for each in self.problems[:_SHOWN_MAX]]
        if more := len(self.problems) - _SHOWN_MAX:
            lines += [f"and {more} more, in .problems"] if more > 0 else []
        super().__init__("\n".join(lines))


class InputWarning(UserWarning):
    """Something about the input is doubtful; ``LoadedCluster.problems`` has all of it."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Files and objects that form one cluster: their paths, and the content of each, as it was when it was read.

    ``newer`` are paths whose objects take the place of those of the same kind and name in others.
    """

    paths: tuple[str, ...]
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    newer: frozenset[str] = frozenset()
    config: str | None = None
    all_shards: bool = False

    def add(self, other: Inputs, replaces: bool) -> Inputs:
        """Both together. ``replaces``: the other's objects take the place of equal ones, and a file that is read again
        that of itself."""
        paths, newer = self.paths, self.newer
        if replaces:
            paths = tuple(path for path in paths if path not in other.paths)
            newer |= set(other.paths)
        return replace(self, paths=paths + other.paths, contents={**self.contents, **other.contents}, newer=newer)

    def read(self) -> tuple[SimulationCase, tuple[Problem, ...]]:
        """The cluster, and warnings about it. Raises InputError."""
        loaded = load(
            self.paths,
            stdin=io.BytesIO(),
            config=self.config,
            contents=self.contents,
            newer=self.newer,
            all_shards=self.all_shards,
        )
        fatal = [problem for problem in loaded.problems if problem.fatal]
        fatal += [_no_cluster(case) for case in loaded.cases if case.is_scenario]
        if fatal:
            raise InputError(fatal)
        (case,) = loaded.cases
        return case, (*loaded.problems, *selector_warnings(case.store.cluster()))


def read_source(source: Source, taken: Iterable[str] = ()) -> Inputs:
    """The inputs that a caller means. ``taken`` are names that objects without a file must not have.

    Raises TypeError and ValueError for what is none of the forms of ``Source``.
    """
    paths: list[str] = []
    contents: dict[str, bytes] = {}
    objects: list[Mapping[str, Any]] = []
    for each in _parts(source):
        if isinstance(each, Mapping):
            objects.append(each)
        elif isinstance(each, bytes):
            name = _unused("bytes", {*taken, *contents})
            paths.append(name)
            contents[name] = each
        else:
            paths.append(_path(each))
    if objects:
        name = _unused("objects", {*taken, *contents})
        paths.append(name)
        contents[name] = _encoded(objects)
    if not paths:
        raise ValueError(f"there is nothing to read: give {_FORMS}")
    return Inputs(tuple(paths), {**_contents(path for path in paths if path not in contents), **contents})


def warn(problems: Sequence[Problem]) -> None:
    """One warning about all of them, for the caller of the caller."""
    if problems:
        more = f" (and {len(problems) - 1} more, in .problems)" if len(problems) > 1 else ""
        warnings.warn(f"{problems[0]}{more}", InputWarning, stacklevel=3)


def _parts(source: object) -> Iterator[object]:
    if isinstance(source, str | bytes | os.PathLike | Mapping):
        yield source
    elif hasattr(source, "read"):
        raise TypeError("give the path of a file, or its content as bytes, not an open file: write load(file.name)")
    elif isinstance(source, Iterable):
        for each in source:
            if each is None:  # an empty YAML document
                continue
            if not isinstance(each, str | bytes | os.PathLike | Mapping):
                raise TypeError(_refusal(each))
            yield each
    else:
        raise TypeError(_refusal(source))


def _refusal(found: object) -> str:
    return f"give {_FORMS}, not {type(found).__name__}: an object is a dictionary with apiVersion and kind"


def _path(found: object) -> str:
    path = os.fspath(found)  # type: ignore[call-overload]
    if not isinstance(path, str):
        raise TypeError(f"paths are texts, not {shown(path)}: write os.fsdecode(...)")
    if path == STDIN:
        raise ValueError("the standard input is not read here: write load(sys.stdin.buffer.read())")
    if "\n" in path:
        raise ValueError("a text is the path of a file: for the content of one write load(text.encode())")
    return path


def _encoded(objects: Sequence[Mapping[str, Any]]) -> bytes:
    encoded = []
    for number, each in enumerate(objects, 1):
        try:
            encoded.append(msgspec.Raw(msgspec.json.encode(each)))
        except (TypeError, RecursionError) as error:
            text = f"object {number} is no Kubernetes object ({error})"
            raise TypeError(f"{text}: give dictionaries of texts, numbers and lists") from None
    return msgspec.json.encode(encoded)


def _contents(paths: Iterable[str]) -> dict[str, bytes]:
    """What is in these files and folders. What cannot be read is missing: ``load`` tells it."""
    found = {}
    for path in expand(list(paths), []):
        try:
            found[path] = read_bytes(path, None)
        except BrokenInput:
            continue
    return found


def _unused(name: str, taken: set[str]) -> str:
    """The name, with a number where it is taken."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name} {number}"
    return found


def _no_cluster(case: SimulationCase) -> Problem:
    message = "a scenario, and no cluster: give Kubernetes objects, or run `kai-sched simulate` on it"
    return Problem(case.path, "", "", message, fatal=True)
