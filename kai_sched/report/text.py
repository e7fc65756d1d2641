"""How amounts, counts and names from the input are written on the terminal."""

from __future__ import annotations

import math
import unicodedata

from kai_sched.plan.reasons import show_amount

# Controls, formats (bidirectional overrides among them), private and lone surrogates, line and paragraph separators.
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})


def plain(text: str) -> str:
    """The text on one line, with characters that a terminal would act on escaped, such as ``\\x1b`` or ``\\u202e``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(sign) if unicodedata.category(sign) in _HIDDEN else sign for sign in text)


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")


def amount(resource: str, value: float) -> str:
    """The bare number in the unit of users (cores, GB, GPUs), at most three decimals; "unlimited" for infinity."""
    small = 0.0 if abs(value) < 5e-4 else value
    if resource == "memory" and math.isfinite(small):  # one unit for a whole column
        return f"{small / 1e9:.3f}".rstrip("0").rstrip(".")
    return show_amount(resource, small).split(" ", 1)[0]


def finite(value: float) -> float:
    """The number as the API writes it: -1 for no bound."""
    return -1.0 if math.isinf(value) else value


def count(number: int, noun: str) -> str:
    """The number with its noun: "1 pod", "12 pods"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
