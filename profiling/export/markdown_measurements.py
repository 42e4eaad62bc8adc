"""The report's measured parts as markdown: clocks, device items, operators, memory, rates, errors."""

from collections.abc import Callable

from profiling.compilation import describe_compilation
from profiling.composed import describe_composed
from profiling.export.markdown import bullets, code, escape, table
from profiling.format import (
    NOT_RECORDED,
    format_bytes,
    format_count,
    format_duration,
    format_error,
    format_quantity,
    format_rate,
    format_share,
)
from profiling.paged_memory import PAGING_METHOD, describe_paging
from profiling.recording import Delta
from profiling.report_schema import KernelSummary, Report

LONGEST_GAPS = 10
YES_NO = {True: "yes", False: "**no**", None: "not judged"}


def _clocks(report: Report) -> str:
    latency = report.latency
    clocks = {"device": latency.device, "submission": latency.submission, "wall": latency.wall}
    rows = [
        (
            name,
            format_duration(clock.median_ns),
            format_duration(clock.p10_ns),
            format_duration(clock.p90_ns),
            format_duration(clock.iqr_ns),
            format_count(clock.count),
            escape(clock.method),
            clock.l2 or "",
        )
        for name, clock in clocks.items()
        if clock is not None
    ]
    headers = ("clock", "median", "p10", "p90", "IQR", "samples", "method", "L2")
    parts = [table(headers, rows, right=headers[1:6])] if rows else []
    if latency.first_call_ns is not None:
        parts.append(f"First call, apart from these: {format_duration(latency.first_call_ns)} of wall time.")
    if report.compilation is not None:
        facts = [(name, escape(value)) for name, value in describe_compilation(report.compilation)]
        parts += ["What torch.compile did:", table(("what", "value"), facts), f"Method: {report.compilation.method}."]
    if latency.ledger:
        stages = [(entry.stage, format_duration(entry.wall_ns)) for entry in latency.ledger]
        parts += ["Where the run's time went:", table(("stage", "wall time"), stages, right=("wall time",))]
    return "\n\n".join(parts)


def _kernels(report: Report) -> str:
    if not report.kernels:
        if report.trace_health is None:
            return ""
        return "No device activity was recorded. If this ran on the CPU, the operators below are the whole picture."
    headers = ("item", "role", "family", "calls", "a step", "device time", "mean", "min", "max", "share")
    rows = [
        (
            code(kernel.short_name),
            kernel.role,
            escape(kernel.family),
            format_count(kernel.calls),
            format_count(kernel.calls_per_step),
            format_duration(kernel.device_time_ns),
            format_duration(kernel.mean_ns),
            format_duration(kernel.min_ns),
            format_duration(kernel.max_ns),
            format_share(kernel.share_of_device_time),
        )
        for kernel in report.kernels
    ]
    note = (
        "Device time is the sum over all recorded steps of the trace's kernel, memcpy and memset records; "
        "a step's items are found by correlation."
    )
    return "\n\n".join((table(headers, rows, right=headers[3:]), note, *map(_kernel_detail, report.kernels)))


def _kernel_detail(kernel: KernelSummary) -> str:
    facts = [f"launched by {code(kernel.launched_by)}" if kernel.launched_by else ""]
    if kernel.kind == "kernel":
        cores = {True: "yes", False: "no", None: "the name does not say"}[kernel.uses_tensor_cores]
        facts += [
            f"grid {_extent(kernel.grid)}, block {_extent(kernel.block)}",
            f"{format_count(kernel.registers_per_thread)} registers a thread",
            f"{format_bytes(kernel.shared_memory_bytes)} of shared memory a block",
            f"estimated occupancy {format_share(kernel.occupancy_reported)} as the profiler wrote it, "
            f"{format_share(kernel.occupancy_recomputed)} recomputed from registers, shared memory and block"
            + (f", limited by {escape(kernel.occupancy_limiter)}" if kernel.occupancy_limiter else ""),
            f"tensor cores: {cores}",
        ]
    elif kernel.bytes is not None:
        facts.append(f"{format_bytes(kernel.bytes)} each")
    return f"{code(kernel.name)}\n\n{bullets([escape(kernel.description), *(fact for fact in facts if fact)])}"


def _extent(extent: tuple[int, int, int] | None) -> str:
    return NOT_RECORDED if extent is None else "×".join(map(str, extent))


def _operators(report: Report) -> str:
    if not report.operators:
        return ""
    headers = ("operator", "calls", "CPU time", "self CPU time", "device time", "self device time")
    rows = [
        (
            code(operator.name),
            format_count(operator.calls),
            format_duration(operator.cpu_time_ns),
            format_duration(operator.self_cpu_time_ns),
            format_duration(operator.device_time_ns),
            format_duration(operator.self_device_time_ns),
        )
        for operator in report.operators
    ]
    note = "Over all recorded steps. Self time leaves out the operators called inside; rows of total times overlap."
    return f"{table(headers, rows, right=headers[1:])}\n\n{note}"


def _activity(report: Report) -> str:
    activity = report.activity
    if activity is None:
        return ""
    text = (
        f"Busy {format_duration(activity.busy_ns)} and idle {format_duration(activity.idle_ns)} of "
        f"{format_duration(activity.span_ns)}: each step from its first device item's start to its last one's end, "
        "overlapping items counted once."
    )
    if not activity.gaps:
        return f"{text} No gaps inside a step."
    longest = sorted(activity.gaps, key=lambda gap: gap.duration_ns, reverse=True)[:LONGEST_GAPS]
    rows = [
        (
            format_duration(gap.duration_ns),
            format_duration(gap.start_ns),
            NOT_RECORDED if gap.step is None else str(gap.step),
            code(gap.before),
        )
        for gap in longest
    ]
    shown = f"The longest {len(longest)} of {format_count(len(activity.gaps))} gaps:"
    headers = ("gap", "from the trace's start", "step", "before")
    return "\n\n".join((text, shown, table(headers, rows, right=headers[:3])))


def _memory(report: Report) -> str:
    memory = report.memory
    if memory is None:
        return ""
    rows = [
        ("peak of one call without the profiler", format_bytes(memory.peak_bytes)),
        ("inputs", format_bytes(memory.inputs_bytes)),
        ("output", format_bytes(memory.output_bytes)),
        ("allocated besides inputs, mask and results", format_bytes(memory.materialized_bytes)),
    ]
    if report.cost is not None:
        rows += [(f"{name}, for comparison", value) for name, value in describe_composed(report.cost)]
    memory_table = table(("what", "device bytes"), rows, right=("device bytes",))
    if report.paging is None:
        return memory_table
    paging_table = table(("block table", "value"), describe_paging(report.paging), right=("value",))
    return "\n\n".join((memory_table, paging_table, f"Method: {PAGING_METHOD}."))


def _cost(report: Report) -> str:
    cost, roofline = report.cost, report.roofline
    if cost is None:
        return ""
    rows = [
        ("FLOPs of one call", format_count(cost.flops)),
        ("least bytes of one call", format_bytes(cost.bytes_min)),
        ("arithmetic intensity", format_quantity(cost.arithmetic_intensity, "FLOP/byte")),
    ]
    if roofline is not None:
        rows += [
            ("achieved compute rate", format_rate(roofline.achieved_flops_per_s, "FLOP")),
            ("achieved least traffic", format_rate(roofline.achieved_bytes_per_s, "B")),
            ("share of the ceiling", format_share(roofline.share_of_ceiling)),
            ("bound by", roofline.bound or NOT_RECORDED),
            ("source of the ceiling", escape(roofline.ceiling_source or NOT_RECORDED)),
        ]
    return f"{table(('what', 'value'), rows)}\n\nAssumptions:\n\n{bullets([escape(line) for line in cost.assumptions])}"


def _correctness(report: Report) -> str:
    if not report.correctness:
        return ""
    headers = ("tensor", "max abs error", "RMS error", "error budget", "within", "NaN", "inf", "dead rows")
    rows = [
        (
            code(delta.tensor),
            format_error(delta.max_abs_error),
            format_error(delta.rms_error),
            format_error(delta.error_budget),
            YES_NO[delta.within_budget],
            format_count(delta.nan_count),
            format_count(delta.inf_count),
            format_count(delta.dead_rows),
        )
        for delta in report.correctness
    ]
    notes = [line for delta in report.correctness for line in _delta_notes(delta)]
    return f"{table(headers, rows, right=headers[1:])}\n\n{bullets(notes)}"


def _delta_notes(delta: Delta) -> list[str]:
    notes = [f"{code(delta.tensor)} against {escape(delta.reference)}. Budget: {escape(delta.budget_basis)}."]
    if delta.worst_index is not None:
        where = ", ".join(map(str, delta.worst_index))
        notes.append(
            f"Worst element of {code(delta.tensor)} at `[{where}]`: "
            f"{format_number(delta.worst_value)} where the reference has {format_number(delta.worst_reference)}."
        )
    return notes


def format_number(value: float | None) -> str:
    """An element as it was computed, with the digits that tell two close ones apart."""
    return NOT_RECORDED if value is None else code(repr(value))


def _trace(report: Report) -> str:
    health = report.trace_health
    if health is None:
        return ""
    text = (
        f"{health.status}: {format_count(health.launches)} launches on the host, "
        f"{format_count(health.linked_kernels)} device items linked to one, "
        f"{format_count(report.steps_recorded)} steps recorded"
    )
    if report.schedule is not None:
        schedule = report.schedule
        text += f" (schedule: wait {schedule.wait}, warm-up {schedule.warmup}, active {schedule.active})"
    problems = [
        f"{escape(problem.kind)} × {format_count(problem.count)}, for example {code(problem.example)}"
        for problem in health.problems
    ]
    return f"{text}." + (f"\n\n{bullets(problems)}" if problems else "")


MEASUREMENT_SECTIONS: tuple[tuple[str, Callable[[Report], str]], ...] = (
    ("Time", _clocks),
    ("Device items", _kernels),
    ("Device activity", _activity),
    ("Operators", _operators),
    ("Memory", _memory),
    ("Work and rates", _cost),
    ("Correctness", _correctness),
    ("Trace", _trace),
)
