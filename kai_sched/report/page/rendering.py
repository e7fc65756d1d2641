"""The HTML file: the template with its style and script in it, all that comes from the cluster escaped.

Names are the input of tenants. Jinja2 escapes every value; data for the script stand in a block of JSON, without a sign
that could end it; the script puts texts into the page as texts. The policy of the page (Content-Security-Policy) allows
this one style and this one script, by their digests, and no request.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

from kai_sched import __version__
from kai_sched.answers.words import number
from kai_sched.report.page.content import PageInput, page_content
from kai_sched.report.text import plain

_TEMPLATE, _LOGIN, _STYLE, _SCRIPT = "page.html.j2", "login.html.j2", "page.css", "page.js"
# What a block of JSON in HTML must not have as it is, as JSON writes it instead.
_JSON_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def render(given: PageInput) -> str:
    """The page as one HTML document."""
    style, script = _file(_STYLE), _file(_SCRIPT)
    return (
        _environment()
        .get_template(_TEMPLATE)
        .render(
            page=page_content(given),
            node_data=json_block(given.nodes.data()),
            style=Markup(style),
            script=Markup(script),
            style_hash=digest(style),
            script_hash=digest(script),
            version=__version__,
        )
    )


def render_login(problem: str) -> str:
    """The form for a token, with what is wrong with the last one; "" for nothing."""
    style = _file(_STYLE)
    return _environment().get_template(_LOGIN).render(problem=problem, style=Markup(style), style_hash=digest(style))


def json_block(data: object) -> Markup:
    """The data as JSON that can stand inside of a script element."""
    return Markup(msgspec.json.encode(data).decode().translate(_JSON_ESCAPES))


def digest(text: str) -> str:
    """The source expression of a Content-Security-Policy that allows this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["amount"] = lambda value: number(value) if value else ""
    return found


def _finalize(value: Any) -> Any:
    """Names with what is hidden in them, such as the direction of the text, escaped as on a terminal."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value
