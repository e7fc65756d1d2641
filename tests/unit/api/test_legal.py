"""Names of objects that are made of other texts."""

from __future__ import annotations

import pytest

from kai_sched.api.legal import NAME_LENGTH, is_subdomain, object_name


@pytest.mark.parametrize("text", ["kai-scheduler", "kai-scheduler-a100", "a.b-1", "a" * NAME_LENGTH])
def test_a_name_stays_as_it_is(text: str) -> None:
    assert object_name(text) == text


TEXTS = ["s-A100", "s-a_100", "s-a-100_", "s-A_100", "s-a..100", "s-a.-100", "_", "", "my pool", "a" * 300, "a" * 301]


def test_other_texts_have_names_of_their_own() -> None:
    found = [object_name(text) for text in TEXTS]
    assert all(is_subdomain(name) for name in found)
    assert len(set(found)) == len(TEXTS)
    assert found[0].startswith("s-a100-")
    assert found == [object_name(text) for text in TEXTS]
