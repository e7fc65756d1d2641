"""What may stand at the cursor of a command line: commands, options, choices, and names that files contain.

Shells and kubectl ask by ``answer_shell``, with the words of the line. The ``complete_*`` functions are for
``autocompletion=`` of a parameter: they read the files that other parameters of the same command name. The scripts that
ask are in ``shell_scripts``.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import typer

ASK = "__complete"
KUBECTL_COMPLETION = "kubectl_complete-kai"
# Parameters that name the files of a cluster, in the order in which they are looked at.
FILE_PARAMETERS = ("paths", "on")
STDIN = "-"
# What a shell does with the choices, as cobra numbers it.
NO_SPACE, NO_FILES = 2, 4
_CHOICES = re.compile(r"[a-z-]+(\|[a-z-]+)+")
_FILES = re.compile(r"\b(FILE|FOLDER)\b")
_GOES_ON = (".", "/", "=")  # the ends of choices that are not a whole word yet
_QUEUE_FIELD = "queue/"
_LIKE = ":like="

# A choice and what it is; the latter may be empty.
Choices = Mapping[str, str]


class NamesInFiles(NamedTuple):
    """Names that may be completed, each with what it is."""

    workloads: Choices
    queues: Choices
    nodes: Choices


@dataclass(frozen=True, slots=True)
class CursorAnswer:
    """The choices for the word at the cursor, and whether a name of a file may stand there as well."""

    choices: Choices
    files: bool = False

    def __str__(self) -> str:
        """As cobra writes it: a line "choice<TAB>what it is" for each, then a colon and what the shell has to do."""
        unfinished = bool(self.choices) and all(choice.endswith(_GOES_ON) for choice in self.choices)
        directive = (NO_SPACE if unfinished else 0) + (0 if self.files else NO_FILES)
        lines = [f"{choice}\t{what}" if what else choice for choice, what in self.choices.items()]
        return "".join(f"{line}\n" for line in [*lines, f":{directive}"])


def is_completion(program: str, arguments: Sequence[str]) -> bool:
    """Whether the program was called to complete a command line rather than to run one."""
    return program == KUBECTL_COMPLETION or arguments[:1] == [ASK]


def answer_shell(program: str, arguments: Sequence[str], root: Any) -> str:
    """The answer as text. ``root`` is the command of the application.

    kubectl gives the words up to the cursor, our scripts ASK, the index of the word at the cursor, and all words behind
    the name of the program.
    """
    if program == KUBECTL_COMPLETION:
        return str(answer(arguments, max(len(arguments) - 1, 0), root))
    index = arguments[1] if len(arguments) > 1 else ""
    if not index.isdecimal():
        return str(CursorAnswer({}))
    return str(answer([_unquoted(word) for word in arguments[2:]], int(index), root))


def _unquoted(word: str) -> str:
    """The word as the command would get it: bash hands over quotes and backslashes."""
    try:
        parts = shlex.split(word)
    except ValueError:
        return word
    return parts[0] if len(parts) == 1 else word


def answer(words: Sequence[str], at: int, root: Any) -> CursorAnswer:
    """What may stand in the place of the word with the index ``at``; ``words`` are all behind the program's name."""
    before, word, after = list(words[:at]), words[at] if at < len(words) else "", list(words[at + 1 :])
    start = next((number for number, each in enumerate(before) if not each.startswith("-")), None)
    if start is None:
        if word.startswith("-"):
            return CursorAnswer(_options(root, word))
        shown = {name: each for name, each in root.commands.items() if not each.hidden and name.startswith(word)}
        return CursorAnswer({name: _first_sentence(each.help) for name, each in shown.items()})
    command = root.commands.get(before[start])
    return CursorAnswer({}) if command is None else _answer_in(command, before[start + 1 :], word, after)


def _answer_in(command: Any, before: list[str], word: str, after: list[str]) -> CursorAnswer:
    """As ``answer``, for the words behind the name of a command."""
    options_end = "--" in before
    option = None if options_end or not before else _option(command, before[-1])
    if option is not None:
        return _values(option, _context(command, [*before, word, *after]), word)
    if word.startswith("-") and not options_end:
        name, equals, value = word.partition("=")
        option = _option(command, name) if equals and name.startswith("--") else None
        if option is None:
            return CursorAnswer(_options(command, word))
        found = _values(option, _context(command, [*before, word, *after]), value)
        return CursorAnswer({f"{name}={choice}": what for choice, what in found.choices.items()}, found.files)
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    given = _context(command, before)
    argument = next((each for each in arguments if each.nargs == -1 or given.params.get(each.name) is None), None)
    if argument is None:
        return CursorAnswer({})
    return _values(argument, _context(command, [*before, word, *after]), word)


def _context(command: Any, words: Sequence[str]) -> Any:
    """The parameters as far as the words give them; mistakes are ignored."""
    return command.make_context(command.name, list(words), resilient_parsing=True)


def _option(command: Any, name: str) -> Any:
    """The option of that name that takes a value; None if there is none."""
    for each in command.params:
        if each.param_type_name == "option" and name in each.opts and not each.is_flag and not each.count:
            return each
    return None


def _options(command: Any, word: str) -> Choices:
    shown = [each for each in command.get_params(_context(command, [])) if each.param_type_name == "option"]
    return {
        name: _first_sentence(each.help)
        for each in shown
        if not each.hidden
        for name in [*each.opts, *each.secondary_opts]
        if name.startswith(word) and (name.startswith("--") or len(word) == 1)
    }


def _values(parameter: Any, context: Any, word: str) -> CursorAnswer:
    """The choices for the value of a parameter: its own, or the words that its metavar is made of."""
    found = {each.value: each.help or "" for each in parameter.shell_complete(context, word)}
    metavar = parameter.metavar or ""
    if not found and _CHOICES.fullmatch(metavar):
        found = {each: "" for each in metavar.split("|") if each.startswith(word)}
    return CursorAnswer(found, files=not found and _FILES.search(metavar) is not None)


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def names_in(paths: Iterable[str], prefix: str = "") -> NamesInFiles:
    """The names in files and folders that begin with the prefix; what cannot be read is left out.

    Workloads go by the name that users gave them, and by "namespace/name" if the prefix has a slash.
    """
    from kai_sched.cli.names_in_files import read_names

    files = [os.path.expanduser(path) for path in paths if path and path != STDIN]
    return NamesInFiles(*read_names(files, prefix))


def complete_workloads(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The workloads in the files of the command line, with what they are."""
    return list(names_in(_paths(ctx), incomplete).workloads.items())


def complete_queues(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The queues in the files of the command line, with their parents."""
    return list(names_in(_paths(ctx), incomplete).queues.items())


def complete_nodes(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The nodes in the files of the command line."""
    return list(names_in(_paths(ctx), incomplete).nodes.items())


def complete_changes(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """For ``--set queue/NAME.FIELD=VALUE``: up to the name of the queue and a dot."""
    if not incomplete.startswith(_QUEUE_FIELD):
        return [(_QUEUE_FIELD, "")] if _QUEUE_FIELD.startswith(incomplete) else []
    queues = names_in(_paths(ctx), incomplete.removeprefix(_QUEUE_FIELD)).queues
    return [(f"{_QUEUE_FIELD}{name}.", what) for name, what in queues.items()]


def complete_added_nodes(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """For ``--add-nodes COUNT:like=NODE``: the node, or what stands before it once there is a number."""
    count, like, name = incomplete.partition(_LIKE)
    if not like:
        digits = re.match(r"\d*", incomplete)
        number = digits[0] if digits else ""
        whole = f"{number}{_LIKE}"
        return [(whole, "")] if number and whole.startswith(incomplete) else []
    return [(f"{count}{like}{node}", what) for node, what in names_in(_paths(ctx), name).nodes.items()]


def _paths(ctx: typer.Context) -> list[str]:
    """The files that the parameters of the command name."""
    found: list[str] = []
    for parameter in FILE_PARAMETERS:
        value = ctx.params.get(parameter)
        found += [value] if isinstance(value, str) else list(value or ())
    return found
