"""Expressions that harm whoever evaluates them, and processes that do not answer as the real one does."""

from __future__ import annotations

import sys

_HUNDRED = f"[{','.join('0' * 100)}]"
SLOW = f"{_HUNDRED}.all(x, {_HUNDRED}.all(y, 'x'.matches('\\\\w{{100}}') || true))"
_DOUBLED = "'" + "x" * 1000 + "'"
for _ in range(18):
    _DOUBLED = f"[{_DOUBLED}].map(a, a + a)[0]"
LARGE = f"{_DOUBLED} == ''"  # 262 MB, and as much again while it is made
DEEP = "(" * 20_000 + "true" + ")" * 20_000

_SENT = "sink.write({}); sink.flush();"
_READY = _SENT.format("struct.pack('>I', 7) + b'[\"\",[]]'")
_START = f"import sys, struct, time, os; source, sink = sys.stdin.buffer, sys.stdout.buffer; {_READY} source.read(4);"


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-c", _START + code]


GARBAGE = {
    "no JSON": _SENT.format("struct.pack('>I', 3) + b'abc'"),
    "another type": _SENT.format("struct.pack('>I', 10) + b'[\"\",[1.50]]'[:10]"),
    "too few answers": _SENT.format("struct.pack('>I', 7) + b'[\"\",[]]'"),
    "too many answers": _SENT.format("struct.pack('>I', 17) + b'[\"\",[true,false]]'"),
    "a huge frame": _SENT.format("struct.pack('>I', 2**32 - 1) + b'x' * 100"),
    "a part of a frame": _SENT.format("struct.pack('>I', 100) + b'x'"),
    "nothing": "",
    "a crash": "os.abort()",
}
