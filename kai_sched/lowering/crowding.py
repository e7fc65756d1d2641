"""When the cache has numbers for so much that is gone that reading all objects again is cheaper than keeping them."""

from __future__ import annotations

from collections.abc import Sequence, Sized

# What has numbers, such as the names of nodes, and the live objects that it belongs to.
Numbered = tuple[Sized, Sized]

SPARE_NUMBERS = 1_000


class Crowding:
    """How many numbers the objects need."""

    def __init__(self) -> None:
        self._of_others: list[int] = []

    def read(self, numbered: Sequence[Numbered]) -> None:
        """All objects have just been read.

        More numbers than live objects are those of others, such as the nodes of other pools that pods are on: to read
        all again would not make them fewer.
        """
        self._of_others = [max(0, len(numbers) - len(live)) for numbers, live in numbered]

    def is_over(self, numbered: Sequence[Numbered]) -> bool:
        """Whether most numbers are of what is gone. ``numbered`` is in the order of that given to ``read``."""
        return any(
            len(numbers) > 4 * len(live) + others + SPARE_NUMBERS
            for (numbers, live), others in zip(numbered, self._of_others, strict=True)
        )
