"""What a trace from elsewhere does not hold, and how to record it."""

from dataclasses import dataclass
from typing import Literal

from profiling.report import Analysis
from profiling.trace.events import Trace
from profiling.trace.parse import STEP_PREFIX

Topic = Literal[
    "steps", "label", "device", "operators", "shapes", "properties", "clocks", "memory", "values", "call", "machine"
]

_RUN_HERE = "run the call with this app and open its recording.json.gz"
_MOST_LABELS = 5  # named; a training step may hold hundreds


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """One thing that is not in the file; ``sentence`` says what, and what to do to have it."""

    topic: Topic
    sentence: str


def find_lacks(analysis: Analysis) -> tuple[Lack, ...]:
    """Nothing for a recording of this app, whose own stages say what they left out."""
    if analysis.trace is None or analysis.report.workload is not None:
        return ()
    trace, label = analysis.trace, analysis.recording.label
    has_label = any(annotation.name == label for annotation in trace.annotations)
    found: list[tuple[bool, Topic, str]] = [
        (
            not trace.steps,
            "steps",
            "No steps recorded, so nothing is counted per step: record with schedule=torch.profiler.schedule(wait=1, "
            "warmup=1, active=3) and call step() after each call.",
        ),
        (not has_label, "label", _missing_label(trace, label)),
        (
            not trace.device_items,
            "device",
            "No device items recorded: record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]. A call on "
            "the CPU has none.",
        ),
        (not trace.operators, "operators", "No operators recorded: record with ProfilerActivity.CPU as well."),
        (
            bool(trace.operators) and not any(operator.input_shapes for operator in trace.operators),
            "shapes",
            "No shapes recorded: record with record_shapes=True.",
        ),
        (
            bool(trace.device_items) and not trace.devices,
            "properties",
            "No deviceProperties in the file's head, so occupancy cannot be recomputed: keep the file as "
            "export_chrome_trace wrote it.",
        ),
        (
            True,
            "clocks",
            f"No clocks recorded: a trace holds profiled steps alone. For calls without the profiler, {_RUN_HERE}.",
        ),
        (True, "memory", f"No memory recorded: a trace does not say what a call held. To have it, {_RUN_HERE}."),
        (True, "values", f"No values recorded: a trace holds times and names alone. To judge the result, {_RUN_HERE}."),
        (
            True,
            "call",
            f"Not recorded what was asked for, so no backend can be judged. To have every verdict, {_RUN_HERE}.",
        ),
        (True, "machine", f"No versions and flags recorded. To have them, {_RUN_HERE}."),
    ]
    return tuple(Lack(topic=topic, sentence=sentence) for lacks, topic, sentence in found if lacks)


def _missing_label(trace: Trace, label: str) -> str:
    names = dict.fromkeys(one.name for one in trace.annotations if not one.name.startswith(STEP_PREFIX))
    what = f"No label {label!r} recorded, so nothing marks each call"
    if not names:
        return f"{what}: put each call inside torch.profiler.record_function({label!r})."
    shown = ", ".join(repr(name) for name in list(names)[:_MOST_LABELS])
    more = f" and {len(names) - _MOST_LABELS} more" if len(names) > _MOST_LABELS else ""
    return f"{what}. This file's labels: {shown}{more}. Give the one around each call as the label."
