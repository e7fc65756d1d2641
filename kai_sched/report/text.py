"""How names from the input and amounts without a bound are written."""

from __future__ import annotations

import math
import unicodedata

# Controls, formats (bidirectional overrides among them), private and lone surrogates, line and paragraph separators.
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})


def plain(text: str) -> str:
    """The text on one line, with characters that a terminal would act on escaped, such as ``\\x1b`` or ``\\u202e``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(sign) if unicodedata.category(sign) in _HIDDEN else sign for sign in text)


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")


def finite(value: float) -> float:
    """The number as the API writes it: -1 for no bound."""
    return -1.0 if math.isinf(value) else value
