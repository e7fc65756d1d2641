"""The error for an input file that cannot be decoded at all."""

from __future__ import annotations


class BrokenInput(Exception):
    """The text cannot be decoded. The message has the place, the error and the remedy; the caller adds the file."""
