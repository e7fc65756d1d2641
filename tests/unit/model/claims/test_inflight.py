"""Claims whose allocation is on its way, laid over what the API server shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched.model.claims.inflight import ClaimHold, ClaimOverlay
from kai_sched.model.claims.objects import AllocatedDevice, Allocation, ResourceClaim
from kai_sched.model.store import Store

CLAIM = ResourceClaim("ml", "c", "u")
A, B = ("a", "uid-a"), ("b", "uid-b")
FIRST, SECOND = (Allocation((AllocatedDevice("gpu", "d", "n1", name),)) for name in ("dev-0", "dev-1"))


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def overlay(store: Store) -> ClaimOverlay:
    overlay = ClaimOverlay(store)
    overlay.observe(CLAIM, 1)
    return overlay


def hold(pod: tuple[str, str] = A, allocation: Allocation = FIRST) -> ClaimHold:
    return ClaimHold("u", pod, allocation)


def shown(store: Store) -> ResourceClaim:
    claim = store.get(ResourceClaim, "ml/c")
    assert claim is not None
    return claim


def test_an_assumed_claim_is_allocated_whatever_old_versions_say(store: Store, overlay: ClaimOverlay) -> None:
    overlay.assume("ml/c", hold())
    overlay.observe(replace(CLAIM, queue="q"), 2)
    assert shown(store) == replace(CLAIM, queue="q", allocation=FIRST, consumers=(A,))


def test_the_observed_reservation_changes_nothing_and_counts_from_then_on(store: Store, overlay: ClaimOverlay) -> None:
    overlay.assume("ml/c", hold())
    before = store.serial
    overlay.observe(replace(CLAIM, allocation=FIRST, consumers=(A,)), 2)
    overlay.written("ml/c", "uid-a", 2)
    assert store.serial == before
    overlay.observe(CLAIM, 3)
    assert shown(store) == CLAIM


def test_a_late_version_from_before_a_release_ends_no_hold(store: Store, overlay: ClaimOverlay) -> None:
    """The pod was reserved in 2, released in 3, and is reserved again in 4, of which nothing is known yet."""
    overlay.assume("ml/c", hold())
    overlay.observe(replace(CLAIM, allocation=FIRST, consumers=(A,)), 2)
    overlay.observe(CLAIM, 3)
    assert shown(store).allocation == FIRST


def test_a_reservation_that_came_and_went_unseen_counts_no_more(store: Store, overlay: ClaimOverlay) -> None:
    """The watch was cut, and the list shows the claim after its pod has ended."""
    overlay.assume("ml/c", hold())
    overlay.written("ml/c", "uid-a", 5)
    assert shown(store).allocation == FIRST
    overlay.observe(replace(CLAIM, queue="q"), 4)
    assert shown(store).allocation == FIRST
    overlay.observe(CLAIM, 7)
    assert shown(store) == CLAIM


def test_a_version_that_is_known_when_the_write_is_told_ends_the_hold(overlay: ClaimOverlay) -> None:
    overlay.observe(replace(CLAIM, allocation=FIRST, consumers=(A,)), 5)
    overlay.assume("ml/c", hold())
    overlay.written("ml/c", "uid-a", 5)
    assert overlay.hold("ml/c", "uid-a") is None


def test_pods_that_share_a_claim_hold_it_by_themselves(store: Store, overlay: ClaimOverlay) -> None:
    first, second = hold(A), hold(B)
    overlay.assume("ml/c", first)
    overlay.assume("ml/c", second)
    assert shown(store).consumers == (A, B)
    overlay.forget("ml/c", first)
    assert (shown(store).allocation, shown(store).consumers) == (FIRST, (B,))
    overlay.forget("ml/c", second)
    assert shown(store) == CLAIM


def test_what_was_assumed_again_meanwhile_is_not_forgotten(store: Store, overlay: ClaimOverlay) -> None:
    first = hold()
    overlay.assume("ml/c", first)
    overlay.assume("ml/c", hold(allocation=SECOND))
    overlay.forget("ml/c", first)
    assert shown(store).allocation == SECOND


def test_an_allocation_by_somebody_else_is_shown(store: Store, overlay: ClaimOverlay) -> None:
    overlay.assume("ml/c", hold())
    overlay.observe(replace(CLAIM, allocation=SECOND), 2)
    assert shown(store).allocation == SECOND


def test_a_claim_that_was_replaced_or_is_gone_holds_nothing(store: Store, overlay: ClaimOverlay) -> None:
    overlay.assume("ml/c", hold())
    overlay.observe(replace(CLAIM, uid="new"), 2)
    assert shown(store) == replace(CLAIM, uid="new")
    overlay.assume("ml/c", hold())
    assert shown(store).allocation is None
    overlay.gone("ml/c")
    overlay.assume("ml/c", hold())
    assert store.get(ResourceClaim, "ml/c") is None


MADE = ResourceClaim("ml", "m", owner="uid-a", extended=True)


def made() -> ClaimHold:
    return ClaimHold("", A, FIRST, made=MADE)


def made_shown(store: Store) -> ResourceClaim | None:
    return store.get(ResourceClaim, "ml/m")


def test_a_claim_that_is_made_is_shown_before_it_is_there_and_whatever_its_uid(
    store: Store, overlay: ClaimOverlay
) -> None:
    overlay.assume("ml/m", made())
    assert made_shown(store) == replace(MADE, allocation=FIRST, consumers=(A,))
    overlay.observe(replace(MADE, uid="new"), 5)
    assert made_shown(store) == replace(MADE, uid="new", allocation=FIRST, consumers=(A,))
    overlay.written("ml/m", "uid-a", 7)
    assert made_shown(store) == replace(MADE, uid="new", allocation=FIRST, consumers=(A,))
    overlay.observe(replace(MADE, uid="new", allocation=SECOND), 7)
    assert made_shown(store) == replace(MADE, uid="new", allocation=SECOND)
    overlay.gone("ml/m")
    assert made_shown(store) is None


def test_the_deletion_of_an_earlier_one_takes_nothing_away(store: Store, overlay: ClaimOverlay) -> None:
    overlay.observe(replace(MADE, uid="old"), 3)
    overlay.assume("ml/m", made())
    overlay.gone("ml/m")
    assert made_shown(store) == replace(MADE, allocation=FIRST, consumers=(A,))
    overlay.observe(replace(MADE, uid="new"), 5)
    overlay.observe(replace(MADE, uid="new", allocation=FIRST, consumers=(A,)), 6)
    overlay.written("ml/m", "uid-a", 6)
    overlay.gone("ml/m")
    assert made_shown(store) is None


def test_one_that_was_shown_and_deleted_before_the_answer_came_is_gone(store: Store, overlay: ClaimOverlay) -> None:
    overlay.assume("ml/m", made())
    overlay.observe(replace(MADE, uid="new", allocation=FIRST, consumers=(A,)), 6)
    overlay.gone("ml/m")
    assert made_shown(store) is not None
    overlay.written("ml/m", "uid-a", 6)
    assert made_shown(store) is None


def test_one_that_was_not_made_is_forgotten(store: Store, overlay: ClaimOverlay) -> None:
    hold = made()
    overlay.assume("ml/m", hold)
    overlay.forget("ml/m", hold)
    assert made_shown(store) is None
    overlay.observe(replace(MADE, uid="later"), 9)
    assert made_shown(store) == replace(MADE, uid="later")
