"""What stops a file from being read at all."""

from __future__ import annotations


class BrokenInput(Exception):
    """The text cannot be decoded: what is wrong, where, and what to do. The caller knows the file."""
