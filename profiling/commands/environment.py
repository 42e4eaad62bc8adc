"""``environment``: the machine as a run would see it."""

import argparse
import json
from dataclasses import asdict

from profiling.commands.command import Command, Context, Outcome
from profiling.commands.experiment import add_device_argument, parse_device, read_environment
from profiling.commands.outputs import add_json_argument, parse_outputs, write_bytes
from profiling.commands.text import align, clean
from profiling.machine import describe_environment


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_device_argument(parser)
    add_json_argument(parser, "the facts")


def _execute(arguments: argparse.Namespace, context: Context) -> Outcome:
    outputs = parse_outputs(arguments)
    environment = read_environment(parse_device(arguments), context)
    as_json = json.dumps(asdict(environment), indent=2, ensure_ascii=False) + "\n"
    notes = () if outputs.json_file is None else (write_bytes(outputs.json_file, as_json.encode()),)
    if outputs.json_only:
        return Outcome(output=as_json, notes=notes)
    rows = [(label, clean(value)) for label, value in describe_environment(environment)]
    return Outcome(output=align(rows) + "\n", notes=notes)


COMMAND = Command(
    slug="environment",
    help="the machine as a run would see it: device, versions, flags",
    add_arguments=_add_arguments,
    execute=_execute,
)
