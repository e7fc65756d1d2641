"""What the text of a selector tells without compiling it: which parts of a device it can see at most, and which domains
it takes to be there (semantics 8.6; ADR 16).

It reads tokens, not CEL: each use of ``device`` must have one of the usual forms, else it may see anything. Linear in
the length of the text, and fast, as users may write many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

ATTRIBUTES, CAPACITY, DRIVER, SHARED = "attributes", "capacity", "driver", "allowMultipleAllocations"

_STRING = r""""(?:[^"\\\r\n]|\\[^\r\n])*"|'(?:[^'\\\r\n]|\\[^\r\n])*'"""
# Comments; long strings; strings; what has no end; words and strings with a prefix; signs, several as one but for dots.
_TOKEN = re.compile(
    rf"""//[^\r\n]*|"{{3}}[\s\S]*?"{{3}}|'{{3}}[\s\S]*?'{{3}}|{_STRING}|["'][\s\S]*"""
    rf"""|\w+(?:"[^"\r\n]*"|'[^'\r\n]*')?|\.|/|[^\w\s"'./]+""",
    re.ASCII,
)
_PLAIN_TEXT = re.compile(r"[\t\n\x20-\x5f\x61-\x7e]*")  # no other space, and no backtick
_PLAIN_STRING = re.compile(_STRING)
_DOMAIN = re.compile(r"""(["'])(?!['"]{2})([^"'\\]*)\1""")
_EDGE = ("",) * 8
# Between signs that end and begin so, "x in y" is no part of another operation.
_BEFORE = ("(", "[", ",", "?", ":", "&&", "||")
_AFTER = (")", "]", ",", "?", ":", "&&", "||")


class DevicePart(NamedTuple):
    """A part of a device: a field, or one value in it; without a name, whether the domain has any."""

    field: str
    domain: str = ""
    name: str = ""


def parts_of(expression: str) -> frozenset[DevicePart] | None:
    """The parts of a device that the expression can see; None: any of them."""
    if "device" not in expression:
        return frozenset()
    tokens = _tokens(expression)
    if not _PLAIN_TEXT.fullmatch(expression) or not all(map(_is_plain, set(tokens))):
        return None
    parts = [_part(tokens, i) for i in _places(tokens, "device")]
    return None if None in parts else frozenset(part for part in parts if part is not None)


def domains_of(expression: str) -> frozenset[tuple[str, str]]:
    """Field and name of the domains that the expression reads values of, and does not ask whether they are there."""
    tokens = _tokens(expression)
    read: set[tuple[str, str]] = set()
    asked: set[tuple[str, str]] = set()
    for field in (ATTRIBUTES, CAPACITY):
        for i in _places(tokens, field):
            domain, wanted = _DOMAIN.fullmatch(tokens[i + 2]), _DOMAIN.fullmatch(tokens[i - 4])
            if tokens[i + 1] == "[" and domain is not None:
                read.add((field, domain[2]))
            elif tokens[i - 3] == "in" and wanted is not None:
                asked.add((field, wanted[2]))
    return frozenset(read - asked)


def _tokens(expression: str) -> list[str]:
    """The tokens without comments, between some empty ones."""
    found = _TOKEN.findall(expression)
    if "//" in expression:
        found = [token for token in found if token[:2] != "//"]
    return [*_EDGE, *found, *_EDGE]


def _is_plain(token: str) -> bool:
    """Whether it is a word, a sign, or a string of the usual kind."""
    if token[:1] in ('"', "'"):
        return token[:3] not in ('"""', "'''") and _PLAIN_STRING.fullmatch(token) is not None
    return token[-1:] not in ('"', "'") or not token


def _places(tokens: list[str], word: str) -> Iterator[int]:
    i = -1
    for _ in range(tokens.count(word)):
        i = tokens.index(word, i + 1)
        yield i


def _part(tokens: list[str], i: int) -> DevicePart | None:
    """What the use of ``device`` at ``i`` can see; None: it is not of a usual form."""
    if tokens[i - 1] == "." or tokens[i + 1] != ".":
        return None
    field, after = tokens[i + 2], tokens[i + 3]
    if field in (DRIVER, SHARED):
        return None if after.startswith("(") else DevicePart(field)
    if field not in (ATTRIBUTES, CAPACITY):
        return None
    if after == "[":
        domain, close, dot, name, then = tokens[i + 4 : i + 9]
        found = _DOMAIN.fullmatch(domain)
        is_value = found is not None and close == "]" and dot == "." and name.isidentifier()
        return (
            DevicePart(field, found[2], name) if found is not None and is_value and not then.startswith("(") else None
        )
    before, asked = tokens[i - 3], _DOMAIN.fullmatch(tokens[i - 2])
    is_alone = (not before or before.endswith(_BEFORE)) and (not after or after.startswith(_AFTER))
    return DevicePart(field, asked[2]) if asked is not None and tokens[i - 1] == "in" and is_alone else None
