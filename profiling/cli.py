"""The command line: arguments to a command, its outcome to streams and an exit code.

Exit codes: 0 fine, also for a backend that refused, since the refusal is the result; 1 the run failed, and its
partial report was written; 2 bad input, one line on standard error; 130 interrupted.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NoReturn

from attention.lookup import find
from attention.workload import InvalidWorkload
from profiling.commands import COMMANDS, Command
from profiling.commands.command import EXIT_BAD_INPUT, EXIT_FAILED, BadInput, CommandFailed, Context
from profiling.recording import Progress, Recorder, Recording, RunRequest
from profiling.workload_flags import PROGRAM

EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
# Absent where the command was started with another Python than the environment's.
REQUIRED = ("torch", "pydantic", "msgspec")


def main(argv: Sequence[str] | None = None, *, record: Recorder | None = None) -> int:
    """Run one command and answer its exit code. ``record`` None: the profiler of this process."""
    # Signs such as µ must not end a run on a terminal that cannot show them.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        return _run(sys.argv[1:] if argv is None else argv, record or _record_here)
    except (InvalidWorkload, BadInput) as error:
        return _say(error, EXIT_BAD_INPUT)
    except CommandFailed as error:
        return _say(error, EXIT_FAILED)
    except ModuleNotFoundError as error:
        if error.name not in REQUIRED:
            raise
        return _say(f"{error.name} is not installed for {sys.executable}; install requirements.txt.", EXIT_FAILED)
    except KeyboardInterrupt:
        return _say("stopped; nothing was written.", EXIT_INTERRUPTED)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Values stay text: commands read them with the same words as the page and the API."""
    parser = _Parser(
        prog=PROGRAM,
        description="What did this attention call really run, what did it cost, and was the answer right?",
        epilog="Exit codes: 0 fine, also for a refused backend; 1 the run failed; 2 bad input.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.slug, help=command.help, description=f"{command.help}.", allow_abbrev=False
        )
        command.add_arguments(subparser)
        subparser.set_defaults(command=command, parser=subparser)
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}; see {self.prog} --help.")


def _run(argv: Sequence[str], record: Recorder) -> int:
    if argv and not argv[0].startswith("-"):
        find(argv[0], COMMANDS, field="command")
    try:
        arguments, unknown = build_parser().parse_known_args(argv)
    except SystemExit as asked_for_help:
        return int(asked_for_help.code or 0)
    if unknown:
        raise _unknown_argument(unknown[0], arguments.command, arguments.parser)
    outcome = arguments.command.execute(arguments, Context(record=record, messages=sys.stderr))
    for note in outcome.notes:
        print(note, file=sys.stderr)
    _print(outcome.output)
    code: int = outcome.exit_code
    return code


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python flushes once more at exit, which must not fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # there the reader has seen enough
            raise CommandFailed(f"standard output could not be written: {error.strerror}.") from error


def _unknown_argument(word: str, command: Command, parser: argparse.ArgumentParser) -> BadInput:
    if not word.startswith("-"):
        return BadInput(f"{word!r} belongs to no flag; see {PROGRAM} {command.slug} --help.")
    flag = word.partition("=")[0]
    flags = [option for action in parser._actions for option in action.option_strings]
    nearest = get_close_matches(flag.replace("_", "-"), flags, n=1)
    remedy = f"did you mean {nearest[0]}?" if nearest else f"see {PROGRAM} {command.slug} --help."
    return BadInput(f"{flag} is not a flag of {command.slug}; {remedy}")


def _record_here(request: RunRequest) -> Iterator[Progress | Recording]:
    # This process owns the GPU: no page is served from it. Late, since it leads to torch.
    from profiling.recorder import record

    return record(request)


def _say(problem: object, exit_code: int) -> int:
    print(f"{PROGRAM}: {' '.join(str(problem).split())}", file=sys.stderr)
    return exit_code
