"""Accounts of what queues held: by hand, and against sums over seconds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.hints import Amounts
from kai_sched.reconcile.past_usage import HALF_LIVES, QUEUES_MAX, SPANS, PastUsage

DAY = 86_400.0
START = 20_000 * DAY  # where spans of a day begin
WINDOW = SPANS * DAY


def gpus(number: float) -> Amounts:
    return 0.0, 0.0, number


def gpu_usage(accounts: PastUsage, now_s: float) -> dict[str, float]:
    accounts.advance(now_s)
    return {queue: usage.gpu for queue, usage in accounts.usage(now_s).items()}


def test_the_part_of_the_time_and_of_the_cluster() -> None:
    """Half of 8 GPUs for 1 of 4 days, then a quarter for 3: (4 + 3*2) / 32."""
    accounts = PastUsage(WINDOW)
    accounts.hold(START, {"a": gpus(4)}, (1000.0, 0.0, 8.0))
    accounts.hold(START + DAY, {"a": gpus(2)}, (1000.0, 0.0, 8.0))
    assert gpu_usage(accounts, START + 4 * DAY) == {"a": pytest.approx(10 / 32)}
    (usage,) = accounts.usage(START + 4 * DAY).values()
    assert (usage.cpu, usage.memory) == (0.0, 0.0)


def test_capacity_counts_as_it_was() -> None:
    accounts = PastUsage(WINDOW)
    accounts.hold(START, {"a": gpus(8)}, gpus(8))
    accounts.hold(START + DAY, {"a": gpus(8)}, gpus(24))
    assert gpu_usage(accounts, START + 2 * DAY) == {"a": pytest.approx(16 / 32)}


def test_what_is_older_than_the_window_is_forgotten() -> None:
    """Until it is, as far as the oldest span is in the window."""
    accounts = PastUsage(WINDOW)
    accounts.hold(START, {"a": gpus(8)}, gpus(8))
    accounts.hold(START + DAY, {}, gpus(8))
    assert gpu_usage(accounts, START + WINDOW) == {"a": pytest.approx(1 / SPANS)}
    assert gpu_usage(accounts, START + WINDOW + DAY / 2) == {"a": pytest.approx(0.5 / SPANS)}
    assert gpu_usage(accounts, START + WINDOW + DAY) == {}


def test_time_in_which_nobody_looked_does_not_count() -> None:
    """Such as that between two leaders."""
    before, accounts = PastUsage(WINDOW), PastUsage(WINDOW)
    before.hold(START, {"a": gpus(8)}, gpus(8))
    before.advance(START + DAY)
    accounts.restore(before.encode(["a"]), START + 3 * DAY)
    accounts.hold(START + 3 * DAY, {}, gpus(8))
    assert gpu_usage(accounts, START + 4 * DAY) == {"a": pytest.approx(8 / 16)}


def test_a_clock_that_goes_back_costs_that_time_only() -> None:
    accounts = PastUsage(WINDOW)
    accounts.hold(START + DAY, {"a": gpus(8)}, gpus(8))
    accounts.hold(START, {}, gpus(8))
    assert gpu_usage(accounts, START + DAY) == {}
    accounts.hold(START + DAY, {"a": gpus(8)}, gpus(8))
    assert gpu_usage(accounts, START + 2 * DAY) == {"a": pytest.approx(0.5)}


def test_the_past_counts_half_after_a_half_life() -> None:
    """A day of all, and two half-lives later a day of nothing: 1/4 of 5/4."""
    before, accounts = PastUsage(WINDOW, half_life_s=2 * DAY), PastUsage(WINDOW, half_life_s=2 * DAY)
    before.hold(START, {"a": gpus(8)}, gpus(8))
    before.advance(START + DAY)
    accounts.restore(before.encode(["a"]), START + 4 * DAY)
    accounts.hold(START + 4 * DAY, {}, gpus(8))
    assert gpu_usage(accounts, START + 5 * DAY) == {"a": pytest.approx(0.2, rel=0.02)}


Step = tuple[int, int, int]  # seconds from the one before, GPUs held, GPUs there are


@given(
    st.lists(st.tuples(st.integers(1, 40_000), st.integers(0, 8), st.integers(8, 16)), min_size=1, max_size=40),
    st.sampled_from([0.0, 50_000.0]),
    st.integers(0, 10**9),
)
def test_accounts_are_what_sums_over_all_times_say(steps: list[Step], half_life_s: float, start: int) -> None:
    window_s = 240_000.0
    accounts, now, parts = PastUsage(window_s, half_life_s), start, list[tuple[int, int, int, int]]()
    for seconds, held, capacity in steps:
        accounts.hold(now, {"a": gpus(held)}, gpus(capacity))
        parts.append((now, now + seconds, held, capacity))
        now += seconds
    whole_s = min(window_s, HALF_LIVES * half_life_s) if half_life_s else window_s

    def added(which: int) -> float:
        """The integral of the amount with the weight 0.5^(age / half-life) over the window."""
        total = 0.0
        for begin, end, *amounts in parts:
            newest, oldest = now - end, min(now - begin, whole_s)
            if oldest > newest and half_life_s:
                rate = math.log(2) / half_life_s
                total += amounts[which] * (math.exp(-rate * newest) - math.exp(-rate * oldest)) / rate
            elif oldest > newest:
                total += amounts[which] * (oldest - newest)
        return total

    expected = added(0) / added(1)
    found = gpu_usage(accounts, now).get("a", 0.0)
    assert found == pytest.approx(expected, abs=1.5 / SPANS)  # the oldest span is not known any better

    again = PastUsage(window_s, half_life_s)
    again.restore(accounts.encode(["a"]), now)
    assert gpu_usage(again, now).get("a", 0.0) == pytest.approx(found, abs=1e-3)


def test_another_window_takes_over_what_is_known() -> None:
    accounts = PastUsage(WINDOW)
    accounts.hold(START, {"a": gpus(8)}, gpus(8))
    accounts.hold(START + 2 * DAY, {}, gpus(8))
    accounts.advance(START + 4 * DAY)
    shorter = PastUsage(3 * DAY)
    shorter.restore(accounts.encode(["a"]), START + 4 * DAY)
    assert gpu_usage(shorter, START + 4 * DAY) == {"a": pytest.approx(1 / 3, abs=0.01)}


def test_what_was_before_a_time_does_not_count() -> None:
    """As with windows that follow each other."""
    accounts = PastUsage(WINDOW)
    accounts.hold(START, {"a": gpus(8)}, gpus(8))
    accounts.hold(START + DAY, {"b": gpus(8)}, gpus(8))
    accounts.advance(START + 2 * DAY)
    shares = accounts.usage(START + 2 * DAY, START + DAY)
    assert {queue: usage.gpu for queue, usage in shares.items()} == {"b": 1.0}


def test_a_window_that_begins_in_a_span_has_nothing_of_what_was_before() -> None:
    """The span is a day; a had all until noon, and b half of it for the three hours after that."""
    accounts, noon = PastUsage(WINDOW), START + DAY / 2
    accounts.hold(START - DAY, {"a": gpus(8)}, gpus(8))
    accounts.hold(noon, {"b": gpus(4)}, gpus(8))
    accounts.forget(noon, noon)
    now_s = noon + 3 * 3600
    assert gpu_usage(accounts, now_s) == {"b": pytest.approx(0.5)}
    # Whoever leads next has the same, whether or not it led when the window began.
    following = PastUsage(WINDOW)
    following.forget(noon, now_s)
    following.restore(accounts.encode(["a", "b"]), now_s)
    following.hold(now_s, {"a": gpus(8)}, gpus(8))
    assert gpu_usage(following, now_s + 3 * 3600) == {"a": pytest.approx(0.5), "b": pytest.approx(0.25)}
    # Noticed late, what was before counts as far as the span is after the beginning.
    late = PastUsage(WINDOW)
    late.hold(START, {"a": gpus(8)}, gpus(8))
    late.advance(now_s)
    late.forget(noon, now_s)
    assert gpu_usage(late, now_s) == {"a": 1.0}
    late.forget(START, now_s)
    assert gpu_usage(late, now_s) == {"a": 1.0}, "a beginning that is earlier brings nothing back"


@pytest.mark.parametrize("data", [b"", b"{}", b"\x1f\x8b", b"\x1f\x8b\x08\x00" + b"\x00" * 30])
def test_what_is_damaged_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no accounts"):
        PastUsage(WINDOW).restore(data, START)


def test_many_queues_fit_into_a_config_map() -> None:
    """Those with the most are kept, each with other amounts in each span."""
    accounts = PastUsage(WINDOW)
    number = 2 * QUEUES_MAX
    for day in range(SPANS):
        held = {f"queue-{k:05}": (k * 37.7 + day, k * 1.3e9 + day, k + day / 3) for k in range(number)}
        accounts.hold(START + day * DAY, held, (1e6, 1e15, 1e4))
    accounts.advance(START + WINDOW)
    data = accounts.encode(f"queue-{k:05}" for k in range(number))
    assert len(data) * 4 / 3 < 1_000_000
    again = PastUsage(WINDOW)
    again.restore(data, START + WINDOW)
    assert sorted(gpu_usage(again, START + WINDOW)) == [f"queue-{k:05}" for k in range(QUEUES_MAX, number)]
