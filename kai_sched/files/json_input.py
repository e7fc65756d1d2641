"""JSON documents: several in a file, on one line or more, and the place of a syntax error."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from kai_sched.files.errors import BrokenInput

_any = msgspec.json.Decoder(msgspec.Raw)
_BLANKS = b" \t\r\n"
_BYTE = re.compile(r"\(byte (\d+)\)")
_TRAILING = "trailing characters"
_BOM = b"\xef\xbb\xbf"


def may_be_json(data: bytes) -> bool:
    """Kubernetes objects in JSON start with a brace; YAML can too, but rarely does."""
    return data[:64].removeprefix(_BOM).lstrip(_BLANKS)[:1] in (b"{", b"[")


def documents(data: bytes) -> Iterator[memoryview]:
    """Each document, checked to be JSON, as a view of ``data``. Raises BrokenInput."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise BrokenInput(f"{_place(data, error.start)}: not UTF-8 text: save the file as UTF-8") from None
    view = memoryview(data)
    start = len(_BOM) if data.startswith(_BOM) else 0
    end = len(data.rstrip(_BLANKS))
    while start < end:
        stop = _document_end(view, start, end, data)
        yield view[start:stop]
        start = stop
        while start < end and data[start] in _BLANKS:
            start += 1


def _document_end(view: memoryview, start: int, end: int, data: bytes) -> int:
    """The end of the document that begins at ``start``, from the decoder's error about trailing characters."""
    try:
        _any.decode(view[start:end])
    except msgspec.DecodeError as error:
        found = _BYTE.search(str(error))
        position = start + int(found[1]) if found else end
        # The decoder reports the position after the first trailing character.
        if _TRAILING in str(error) and position - 1 > start:
            return position - 1
        raise BrokenInput(f"{_place(data, position)}: not valid JSON: {_plain(str(error))}: correct the file") from None
    except RecursionError:
        raise BrokenInput(f"{_place(data, start)}: nested too deeply for a Kubernetes object") from None
    return end


def _plain(message: str) -> str:
    message = _BYTE.sub("", message).removeprefix("JSON is malformed: ").strip()
    return "it ends too early" if message == "Input data was truncated" else message


def _place(data: bytes, position: int) -> str:
    before = data[:position]
    return f"line {before.count(10) + 1}, column {position - before.rfind(10)}"
