"""What a command of ``python -m profiling`` is, and what it hands back."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from profiling.recording import Recorder

EXIT_FINE = 0
EXIT_FAILED = 1
EXIT_BAD_INPUT = 2


class BadInput(ValueError):
    """A user's mistake, as one sentence: what is wrong, the value, what is allowed and what to do."""


class CommandFailed(RuntimeError):
    """The command could not do its work, through no mistake in its arguments; one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a command may reach outside its arguments. ``messages`` is for people: progress and notes."""

    record: Recorder
    messages: TextIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``output`` goes to standard output whole, at the end; ``notes`` are lines for people."""

    output: str
    exit_code: int = EXIT_FINE
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. ``execute`` raises BadInput, InvalidWorkload or CommandFailed and nothing else on purpose."""

    slug: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace, Context], Outcome]
