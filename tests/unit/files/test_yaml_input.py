"""YAML as kubectl reads it, and nothing that grows without end."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.files import yaml_input
from kai_sched.files.errors import BrokenInput


def read(text: str | bytes) -> list[Any]:
    data = text.encode() if isinstance(text, str) else text
    return [json.loads(document) for document in yaml_input.documents(data, lambda _: None)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T12:00:00Z", "2026-01-01T12:00:00Z"),
        ("12:30:45", "12:30:45"),
        ("1", 1),
        ("-5", -5),
        ("+5", 5),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0b101", 5),
        ("010", 8),
        ("0o10", 8),
        ("08", 8.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("99999999999999999999", 1e20),
        ("yes", True),
        ("Off", False),
        ("y", "y"),
        ("~", None),
        ("", None),
        ("null", None),
        ("nUll", "nUll"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ("!!int '7'", 7),
        ("1Gi", "1Gi"),
        ("1.2.3", "1.2.3"),
        ("|\n  a\n  b", "a\nb\n"),
    ],
)
def test_scalars(text: str, value: object) -> None:
    (found,) = read(f"a: {text}\n")
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


def test_documents_and_comments() -> None:
    assert read("# nothing\n---\na: 1\n---\n---\n# c\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]
    assert read("") == read("# only this\n") == []


def test_keys_are_texts() -> None:
    assert read("1: a\ntrue: b\nnull: c\n") == [{"1": "a", "true": "b", "null": "c"}]


def test_aliases_and_merges() -> None:
    text = "base: &b {x: 1, y: 2}\nsame: *b\nmore:\n  <<: *b\n  y: 3\nmany:\n  <<: [{x: 5}, *b]\n"
    expected = {"base": {"x": 1, "y": 2}, "same": {"x": 1, "y": 2}, "more": {"x": 1, "y": 3}, "many": {"x": 5, "y": 2}}
    assert read(text) == [expected]


def test_anchors_end_with_their_document() -> None:
    with pytest.raises(BrokenInput, match="line 3, column 4: alias \\*x refers to nothing"):
        read("a: &x 1\n---\nb: *x\n")


def bomb(levels: int, width: int = 9) -> str:
    lines = [f"a0: &a0 [{', '.join(['x'] * width)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("levels", [8, 12, 60])
def test_an_alias_bomb_is_refused_before_it_expands(levels: int) -> None:
    with pytest.raises(BrokenInput, match=r"line \d+, column \d+: aliases expand to more than .*alias bomb"):
        read(bomb(levels))


def test_a_bomb_of_merges_is_refused_too() -> None:
    lines = ["a0: &a0 {" + ", ".join(f"k{n}: x" for n in range(50)) + "}"]
    lines += [f"a{n}: &a{n}\n" + "".join(f"  k{n}-{m}: *a{n - 1}\n" for m in range(50)) for n in range(1, 8)]
    with pytest.raises(BrokenInput, match="alias bomb"):
        read("\n".join(lines))


def test_modest_use_of_aliases_is_fine() -> None:
    assert len(read(bomb(5))[0]["a4"]) == 9


@pytest.mark.parametrize("text", ["a: &x [*x]\n", "a: &x {b: *x}\n", "&x [[[*x]]]\n"])
def test_an_alias_inside_what_it_refers_to(text: str) -> None:
    with pytest.raises(BrokenInput, match="refers to a value that contains it"):
        read(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: b: c\n", "line 1, column 5: not valid YAML"),
        ("a: 1\n\tb: 2\n", "line 2, column 1: not valid YAML: found a tab"),
        ("x: 1\na: [1,\n", "not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: key 'a' occurs twice"),
        ("a: .inf\n", "line 1, column 4: .inf is not a number"),
        ("a: .nan\n", "is not a number"),
        ("a: 1e999\n", "too large a number"),
        ("? [1]\n: b\n", "key must be a text"),
        ("? {a: 1}\n: b\n", "key must be a text"),
        ("a: !!python/object/apply:os.system [x]\n", "tag .* is not known"),
        ("a: !custom x\n", "tag !custom is not known"),
        ("a: *b\n", "alias \\*b refers to nothing"),
        ("<<: 5\n", "<< merges mappings only"),
        ("[" * 1000, "nested more than 200 deep"),
        (b"a: \xff\n", "line 1: not UTF-8"),
        ("a: \x07\n", "not valid YAML"),
    ],
)
def test_broken_texts_say_where_and_what(text: str | bytes, words: str) -> None:
    with pytest.raises(BrokenInput, match=words):
        read(text)


def test_byte_order_marks() -> None:
    assert read("a: ü".encode("utf-8-sig")) == read("a: ü".encode("utf-16")) == [{"a": "ü"}]


def test_the_share_that_is_read_is_reported() -> None:
    shares: list[float] = []
    data = b"- a\n" * (yaml_input.EVENTS_BETWEEN_REPORTS * 2)
    assert len(list(yaml_input.documents(data, shares.append))) == 1
    assert shares == sorted(shares)
    assert len(shares) == 2
    assert all(0 < share <= 1 for share in shares)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8", exclude_categories=["C"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcdef/.-", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, min_size=1))
def test_what_a_standard_writer_writes_is_read_back(value: dict[str, Any]) -> None:
    text = yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True)
    (document,) = yaml_input.documents(text.encode(), lambda _: None)
    assert msgspec.json.decode(document) == value
