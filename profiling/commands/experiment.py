"""From flags to a workload on a known device. Values stay text until ``parse_workload`` reads them."""

import argparse
from collections.abc import Mapping
from typing import Literal, cast

from attention.field import WorkloadField
from attention.kinds import AnyWorkload
from attention.lookup import find_name
from attention.validation import (
    FOLLOWS,
    WORKLOAD_FIELDS,
    complete_fields,
    default_fields,
    parse_workload,
)
from attention.workload import InvalidWorkload
from profiling.commands.command import BadInput, CommandFailed, Context
from profiling.recording import Environment, Progress, Recording, RunRequest, Schedule
from profiling.workload_flags import flag_of

Device = Literal["auto", "cpu", "cuda"]
DEVICES: tuple[Device, ...] = ("auto", "cpu", "cuda")
# A trace grows with every step and viewers choke on large ones; more steps than this tell nothing new.
MOST_STEPS = 20
_METAVARS = {"choice": "NAME", "int": "N", "float": "X", "text": "TEXT"}


def add_device_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", metavar="NAME", default="auto", help="auto, cpu or cuda; auto takes the GPU where there is one"
    )


def add_workload_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag a workload field; a flag that is left out takes the device's default."""
    group = parser.add_argument_group("workload")
    for field in WORKLOAD_FIELDS:
        group.add_argument(flag_of(field.name), dest=field.name, metavar=_METAVARS[field.kind], help=_help(field))
    add_device_argument(parser)


def add_steps_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--steps",
        metavar="N",
        default=str(Schedule().active),
        help=f"profiled steps, 1 to {MOST_STEPS}; default {Schedule().active}",
    )


def parse_device(arguments: argparse.Namespace) -> Device:
    """Raises: InvalidWorkload."""
    return cast(Device, find_name(arguments.device, DEVICES, field="device"))


def parse_schedule(arguments: argparse.Namespace) -> Schedule:
    """Raises: InvalidWorkload."""
    text = arguments.steps.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= MOST_STEPS):
        raise InvalidWorkload("steps", arguments.steps, "is not a number of steps", f"choose 1 to {MOST_STEPS}")
    return Schedule(active=int(text))


def resolve_workload(arguments: argparse.Namespace, context: Context) -> tuple[AnyWorkload, Device]:
    """The workload and the device that it will run on.

    What is wrong on every device in question is refused before the device is read, which takes seconds.

    Raises:
        InvalidWorkload: a field is wrong.
        BadInput, CommandFailed: as ``read_environment``.
    """
    device = parse_device(arguments)
    given = _given_fields(arguments)
    problems = [_problem(given, kind) for kind in (("cuda", "cpu") if device == "auto" else (device,))]
    if problems[0] is not None and all(problems):
        raise problems[0]
    found = read_environment(device, context).device
    return parse_workload(complete_fields(given, found)), found


def read_environment(device: Device, context: Context) -> Environment:
    """The machine, read by the process that will run the workload.

    Raises:
        BadInput: the device asked for is not there.
        CommandFailed: the machine could not be read.
    """
    recording = run_request(RunRequest(workloads=(), depth="environment", device=device), context)
    if recording.environment is not None:
        return recording.environment
    refuse_invalid(recording)
    words = recording.failures[0].message if recording.failures else "no reason was given."
    if device == "cuda":
        raise BadInput(f"device='cuda' cannot be used: {words}")
    raise CommandFailed(f"the machine could not be read: {words}")


def refuse_invalid(recording: Recording) -> None:
    """Raises: BadInput: the request itself cannot be run on this machine, such as a workload that does not fit."""
    for failure in recording.failures:
        if failure.kind == "invalid":
            raise BadInput(failure.message)


def run_request(request: RunRequest, context: Context) -> Recording:
    """The one recording of a request with at most one workload; progress is shown on a terminal.

    Raises:
        CommandFailed: the recorder ended without a recording.
    """
    recording = None
    line = _ProgressLine(context)
    try:
        for item in context.record(request):
            if isinstance(item, Progress):
                line.show(item)
            else:
                recording = item
    finally:
        line.clear()
    if recording is None:
        raise CommandFailed("the run ended without a recording; start it again.")
    return recording


class _ProgressLine:
    """One line on a terminal that is written over at each stage; nothing elsewhere."""

    def __init__(self, context: Context) -> None:
        self._stream = context.messages if context.messages.isatty() else None
        self._width = 0

    def show(self, progress: Progress) -> None:
        if self._stream is not None:
            self._write(f"{progress.done + 1}/{progress.total} {progress.stage.replace('_', ' ')}…")

    def clear(self) -> None:
        if self._stream is not None and self._width:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()

    def _write(self, text: str) -> None:
        assert self._stream is not None
        self._stream.write(f"\r{text.ljust(self._width)}")
        self._stream.flush()
        self._width = len(text)


def _help(field: WorkloadField) -> str:
    # Of several operations the first that has the field; what others take instead stands behind it.
    first, *others = field.operations
    default, on_cpu = (default_fields(kind, first)[field.name] for kind in ("cuda", "cpu"))
    words = [field.help]
    if field.choices:
        words.append(", ".join(field.choices))
    if field.name in FOLLOWS:
        words.append(f"default {FOLLOWS[field.name]}")
    elif default is not None:
        words.append(f"default {default}" + (f", on a CPU {on_cpu}" if on_cpu != default else ""))
        words += [
            f"of {name} {field.default_of(name)}"
            for name in others
            if field.default_of(name) != default and field.name != "operation"
        ]
    return "; ".join(words).replace("%", "%%")


def _given_fields(arguments: argparse.Namespace) -> dict[str, str]:
    given = {}
    for field in WORKLOAD_FIELDS:
        value = getattr(arguments, field.name)
        if value is None:
            continue
        if not value.strip():
            raise InvalidWorkload(field.name, value, "is empty", "give a value or leave the flag out")
        given[field.name] = value
    return given


def _problem(given: Mapping[str, str], device: str) -> InvalidWorkload | None:
    try:
        parse_workload(complete_fields(given, device))
    except InvalidWorkload as problem:
        return problem
    return None
