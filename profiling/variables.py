"""What differs between two runs: only when it is one variable can a difference in time be put down to it."""

from collections.abc import Iterator, Mapping
from typing import Any

from attention.validation import FOLLOWS, flatten_workload
from profiling.comparison_schema import Variable
from profiling.format import NOT_RECORDED
from profiling.recording import Environment
from profiling.report import Analysis
from profiling.report_schema import Report

# Facts of the machine that a call's time depends on; clocks, dates and free memory vary from run to run.
MACHINE_FACTS = {
    "device_name": "device",
    "mig": "MIG slice",
    "driver": "driver",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "torch": "torch",
    "triton": "Triton",
    "python": "Python",
}
# A field that only repeats another one in both runs changes with it: a self-attention call has one length.
_FOLLOWERS = FOLLOWS | {"head_dim_v": "head_dim"}


def find_variables(before: Analysis, after: Analysis) -> tuple[Variable, ...]:
    """Every recorded variable in which the two runs differ: the workload's first, then the machine's."""
    return (
        *_workload_variables(before.report, after.report),
        *_machine_variables(before, after),
        *_kernel_variables(before.report, after.report),
    )


def describe_attribution(before: Analysis, after: Analysis, variables: tuple[Variable, ...]) -> str:
    """Whether a difference may be put down to something, as one sentence or two."""
    listed = ", ".join(variable.name for variable in variables)
    if before.report.workload is None or after.report.workload is None:
        known = f" Known to differ: {listed}." if variables else ""
        return (
            "Cannot attribute: a trace alone does not say which call was run."
            f"{known} Compare two recordings of this app for that."
        )
    if len(variables) > 1:
        return (
            f"Cannot attribute: the runs differ in {len(variables)} variables ({listed}). "
            "Change one at a time to learn which of them matters."
        )
    if variables:
        only = variables[0]
        return f"One recorded variable differs, {only.name}: {only.before} before, {only.after} after."
    return "No recorded variable differs: what changed is the noise between runs, or something that is not recorded."


def _workload_variables(before: Report, after: Report) -> Iterator[Variable]:
    if before.workload is None or after.workload is None:
        return
    old, new = flatten_workload(before.workload), flatten_workload(after.workload)
    follows = {
        name for name, leader in _FOLLOWERS.items() if _repeats(old, name, leader) and _repeats(new, name, leader)
    }
    for name, value in old.items():
        if name not in new or value == new[name] or name in follows:
            continue  # a field of one operation alone comes with the operation
        if name.startswith("mask_") and name != "mask_form" and old["mask"] != new["mask"]:
            continue  # another mask's parameters are no variables of their own
        yield Variable(name=name, before=_words(value), after=_words(new[name]))


def _repeats(fields: Mapping[str, Any], name: str, leader: str) -> bool:
    return name in fields and fields[name] in (None, fields[leader])


def _machine_variables(before: Analysis, after: Analysis) -> Iterator[Variable]:
    old, new = before.report.environment, after.report.environment
    if old is None or new is None:
        first, second = _name_devices(before), _name_devices(after)
        if first and second and first != second:
            yield Variable(name="device", before=first, after=second)
        return
    for field, name in MACHINE_FACTS.items():
        first, second = getattr(old, field), getattr(new, field)
        if first != second:
            yield Variable(name=name, before=_words(first), after=_words(second))
    for flag in dict.fromkeys((*old.flags, *new.flags)):
        if old.flags.get(flag) != new.flags.get(flag):
            yield Variable(name=f"flag {flag}", before=_words(old.flags.get(flag)), after=_words(new.flags.get(flag)))


def _name_devices(analysis: Analysis) -> str:
    environment: Environment | None = analysis.report.environment
    if environment is not None:
        return environment.device_name
    devices = analysis.trace.devices if analysis.trace else ()
    return ", ".join(dict.fromkeys(device.name for device in devices))


def _kernel_variables(before: Report, after: Report) -> Iterator[Variable]:
    """Another build of the same backend's kernel; another backend's kernel comes with the backend."""
    if before.requested_backend != after.requested_backend:
        return
    old, new = before.kernel_source, after.kernel_source
    if old is None or new is None:
        return
    for field, name in (("revision", "kernel revision"), ("package_version", f"{new.package} version")):
        first, second = getattr(old, field), getattr(new, field)
        if first != second:
            yield Variable(name=name, before=_words(first), after=_words(second))


def _words(value: object) -> str:
    return NOT_RECORDED if value is None or value == "" else str(value)
