"""Random CEL about devices: what users write, right and wrong, in usual and in odd forms.

``expressions`` are cheap to evaluate. Those of ``HARMFUL`` are not, or end the process that evaluates them.
"""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from kai_sched.model.claims.objects import Capacity, Device, Version
from tests.unit.selectors.commands import DEEP, LARGE, SLOW

NAMES, DOMAINS = ("a", "b", "size", "device"), ("x.com", "y.com", "attributes")
TEXTS = (
    "x.com",
    "y.com",
    "a",
    "A1",
    "",
    " in device.attributes",
    "device.attributes[",
    "].a",
    "//",
    "\\'",
    "\\\\",
    "\\w+",
)
HARMFUL = (SLOW, LARGE, DEEP)


def _quoted(draw: st.DrawFn, text: str) -> str:
    quote = draw(st.sampled_from("'\""))
    return quote + text.replace(quote, "") + quote


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A string literal, mostly a usual one."""
    kind = draw(st.integers(0, 15))
    text = draw(st.sampled_from(TEXTS))
    if kind == 0:
        return "r" + _quoted(draw, text.rstrip("\\'"))
    if kind == 1:
        return f'"""{text}"b"""'
    return _quoted(draw, text)


@st.composite
def places(draw: st.DrawFn) -> str:
    """A field of the device that has domains."""
    return draw(st.sampled_from(["device", "device", "device ", "[device][0]"])) + draw(
        st.sampled_from([".attributes", ".attributes", ".capacity", " . attributes", ".// '\n attributes"])
    )


@st.composite
def values(draw: st.DrawFn) -> str:
    """A value of a device, or a call that looks like one."""
    domain = draw(st.sampled_from(DOMAINS))
    end = draw(st.sampled_from([f".{name}" for name in NAMES] * 3 + [".size()", "['a']", ".a.size()", ""]))
    return f"{draw(places())}[{_quoted(draw, domain)}]{end}"


ints = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["0", "1", "3", "9223372036854775807", "-9223372036854775808", "3u", "1.5", "1e300", "null"]),
        values(),
        values(),
        st.builds("({} {} {})".format, ints, st.sampled_from("+-*/%"), ints),
        st.builds("-{}".format, ints),
        st.builds("[1, {}][{}]".format, ints, ints),
        st.builds("{{'a': 1, {}: 2}}[{}]".format, texts(), texts()),
        st.builds("{}({})".format, st.sampled_from(["int", "uint", "double", "size", "dyn", "duration"]), anything),
        st.builds("[1, 2].map(device, device + {})".format, ints),
    )
)
anything = st.deferred(lambda: st.one_of(ints, texts(), booleans))
# What has an answer for most devices.
questions = st.one_of(
    st.sampled_from(["true", "device.driver == 'x.com'", "device.allowMultipleAllocations"]),
    st.builds("has({})".format, values()),
    st.builds("{} in {}".format, texts(), places()),
    st.builds("{} + {} in {}".format, texts(), texts(), places()),
    st.builds("{} {} device.driver".format, texts(), st.sampled_from(["==", "!="])),
    st.builds("{} != {}".format, texts(), texts()),
    st.builds("{}[{}].{}(k, k == {})".format, places(), texts(), st.sampled_from(["all", "exists"]), texts()),
    st.builds("{}[{}].size() == {}".format, places(), texts(), st.sampled_from("0123")),
    st.builds("(has({0}) && {0} == {1})".format, values(), st.sampled_from(["3", "'A1'", "true", "'a'"])),
)
# What often fails.
attempts = st.one_of(
    st.builds("{} == {}".format, values(), anything),
    st.builds("{} in {} == {}".format, texts(), places(), anything),
    st.builds("{} == {} in {}".format, anything, texts(), places()),
    st.builds("{} {} {}".format, anything, st.sampled_from(["==", "!=", "<", ">=", "in"]), anything),
    st.builds("{}.compareTo(quantity({})) > {}".format, values(), st.sampled_from(["'1Gi'", "'x'"]), ints),
    st.builds("{}.matches({})".format, texts(), texts()),
)
booleans = st.deferred(
    lambda: st.one_of(
        questions,
        questions,
        attempts,
        st.builds("{}.all(k, k != {} || {})".format, places(), texts(), booleans),
        st.builds("[1, 2].{}(device, {})".format, st.sampled_from(["all", "exists", "exists_one"]), booleans),
        st.builds("!{}".format, booleans),
        st.builds("({})".format, booleans),
        st.builds("{} {} {}".format, booleans, st.sampled_from(["&&", "||", "&&\n"]), booleans),
        st.builds("{} {} {}".format, booleans, st.sampled_from(["&&", "||", "&&\n"]), booleans),
        st.builds("({} ? {} : {})".format, booleans, booleans, anything),
    )
)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """An expression; some are cut off, so that they are none."""
    found = draw(booleans)
    cut = draw(st.integers(0, 40))
    return found[:cut] if cut < 3 else found


def devices() -> st.SearchStrategy[Device]:
    """A device with some attributes and capacities."""
    qualified = st.sampled_from([f"{domain}/{name}" for domain in DOMAINS for name in NAMES])
    value = st.sampled_from([0, 1, 3, True, "A1", "a", Version("1.2.3")])
    return st.builds(
        Device,
        st.just("d"),
        st.dictionaries(qualified, value, min_size=1, max_size=6),
        st.dictionaries(qualified, st.just(Capacity(Fraction(2**30))), max_size=3),
        shared=st.booleans(),
    )
