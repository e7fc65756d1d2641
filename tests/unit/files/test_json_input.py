"""JSON: one document or several."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.files import json_input
from kai_sched.files.errors import BrokenInput


def read(text: str | bytes) -> list[Any]:
    data = text.encode() if isinstance(text, str) else text
    return [json.loads(bytes(document)) for document in json_input.documents(data)]


@pytest.mark.parametrize("between", ["", "\n", " \n\t\r\n"])
def test_several_documents(between: str) -> None:
    documents = [{"a": 1}, {"b": [2, {"c": "}{"}]}, {}, {"d": "ü"}]
    text = between.join(json.dumps(document, ensure_ascii=False) for document in documents) + between
    assert read(text) == documents


def test_indented_documents() -> None:
    assert read(json.dumps({"a": 1}, indent=4) + "\n" + json.dumps({"b": 2}, indent=4)) == [{"a": 1}, {"b": 2}]


def test_nothing() -> None:
    assert read("") == read(" \n ") == []


def test_byte_order_mark() -> None:
    assert read(b'\xef\xbb\xbf{"a": 1}') == [{"a": 1}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a":', "line 1, column 6: not valid JSON: it ends too early"),
        ('{"a": 1,}', "line 1, column 9: not valid JSON"),
        ('{\n"a": tru\n}', "line 2, .*: not valid JSON"),
        ('{"a": 1}\n{"b" 2}', "line 2, .*: not valid JSON"),
        ('{"a": 1}x', "line 1, .*: not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": NaN}', "not valid JSON"),
        ("[" * 100_000, "nested too deep"),
        (b'{"a": "\xff"}', "line 1, column 8: not UTF-8"),
    ],
)
def test_broken_texts_say_where_and_what(text: str | bytes, words: str) -> None:
    with pytest.raises(BrokenInput, match=words):
        read(text)


@pytest.mark.parametrize(
    ("text", "is_json"),
    [("{", True), ("\n\n  [", True), ("\ufeff{", True), ("a: {", False), ("", False), ("# {", False)],
)
def test_may_be_json(text: str, is_json: bool) -> None:
    assert json_input.may_be_json(text.encode()) == is_json


@given(
    st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.booleans()))),
    st.sampled_from(["", "\n"]),
)
def test_any_documents_are_told_apart(documents: list[dict[str, Any]], between: str) -> None:
    assert read(between.join(map(json.dumps, documents))) == documents
