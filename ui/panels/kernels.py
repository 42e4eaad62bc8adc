"""Kernels: every device item of the recorded steps by name, with its cost, its shape and where it came from."""

from profiling.format import NOT_RECORDED, format_bytes, format_count, format_duration, format_items, format_share
from profiling.no_device import explain_no_device
from profiling.report_schema import KernelSummary
from ui.components.names import render_name
from ui.components.table import MAX_ROWS, Cell, Column, Row, number, render_table, words
from ui.markup import Markup, element, join
from ui.panels import operators
from ui.panels.panel import html_panel
from ui.roles import render_role
from ui.view import RunView

_UNSAID = "unknown"  # the name does not say
COLUMNS = (
    Column(title="kernel", help="short name; hover for the whole one, copy takes the whole one"),
    Column(title="role"),
    Column(title="data type", help="of the tensors, as far as the kernel's name says it"),
    Column(title="tile", help="rows by columns of one block's output, as far as the kernel's name says it"),
    Column(title="calls a step", kind="number", help="counted by correlation inside each step"),
    Column(title="device time", kind="number", help="summed over the recorded steps"),
    Column(title="share", kind="number", help="of all device time in the recorded steps"),
    Column(title="mean", kind="number"),
    Column(title="min", kind="number"),
    Column(title="max", kind="number"),
    Column(title="grid", kind="number"),
    Column(title="block", kind="number"),
    Column(title="registers", kind="number", help="per thread"),
    Column(title="shared memory", kind="number", help="per block; for memcpy and memset their size is under size"),
    Column(title="size", kind="number", help="bytes of one memcpy or memset"),
    Column(title="occupancy reported", kind="number", help="the profiler's estimate, as written in the trace"),
    Column(title="recomputed", kind="number", help="occupancy from registers, shared memory and block size"),
    Column(title="limited by", help="what stops one more block on a multiprocessor"),
    Column(title="tensor cores"),
    Column(title="launched by"),
)


def render(view: RunView) -> Markup:
    """The table, or that nothing ran on a device."""
    report = view.analysis.report
    if not report.kernels:
        return element("div", _render_nothing(view), class_="att")
    steps = format_items(report.steps_recorded, "recorded step") if report.steps_recorded else "the whole trace"
    return element(
        "div",
        element(
            "p",
            f"Device items of {steps}. Select a row to see it on the timeline. The trace's own occupancy reads 0 for "
            "any kernel with more than 48 KiB of shared memory; the recomputed one uses what the device really allows.",
            class_="quiet",
        ),
        render_table(
            COLUMNS,
            [_row(kernel) for kernel in report.kernels[:MAX_ROWS]],
            caption="kernels, memory copies and memory sets",
            pin_first=True,
            left_out=len(report.kernels) - MAX_ROWS,
        ),
        class_="att",
    )


def _render_nothing(view: RunView) -> Markup:
    report = view.analysis.report
    if view.analysis.trace is None:
        return element("p", "No trace was recorded, so there are no kernels to show.")
    message = f"No device activity was recorded; {explain_no_device(report)}."
    return join((element("p", message, " These are the operators instead."), operators.render(view)))


def _row(kernel: KernelSummary) -> Row:
    return Row(items=kernel.items, cells=_cells(kernel))


def _cells(kernel: KernelSummary) -> tuple[Cell, ...]:
    return (
        Cell(
            content=join(
                (
                    render_name(kernel.short_name, kernel.name),
                    element("span", kernel.description, class_="sentence"),
                )
            ),
            sort_key=kernel.short_name,
        ),
        Cell(content=render_role(kernel.role), sort_key=kernel.role),
        _said_by_name(kernel, kernel.data_type),
        _said_by_name(kernel, kernel.tile),
        number(format_count(kernel.calls_per_step), kernel.calls_per_step),
        number(format_duration(kernel.device_time_ns), kernel.device_time_ns),
        number(format_share(kernel.share_of_device_time), kernel.share_of_device_time),
        number(format_duration(kernel.mean_ns), kernel.mean_ns),
        number(format_duration(kernel.min_ns), kernel.min_ns),
        number(format_duration(kernel.max_ns), kernel.max_ns),
        _dimensions(kernel, kernel.grid),
        _dimensions(kernel, kernel.block),
        _of_kernel(kernel, format_count(kernel.registers_per_thread), kernel.registers_per_thread),
        _of_kernel(kernel, format_bytes(kernel.shared_memory_bytes), kernel.shared_memory_bytes),
        number("–", None) if kernel.kind == "kernel" else number(format_bytes(kernel.bytes), kernel.bytes),
        _of_kernel(kernel, format_share(kernel.occupancy_reported), kernel.occupancy_reported),
        _of_kernel(kernel, format_share(kernel.occupancy_recomputed), kernel.occupancy_recomputed),
        _limiter(kernel),
        words(_tensor_cores(kernel)),
        words(kernel.launched_by or NOT_RECORDED),
    )


def _of_kernel(kernel: KernelSummary, content: str, value: float | None) -> Cell:
    """A memory operation has no such property at all, which is not the same as one that was not recorded."""
    return number(content, value) if kernel.kind == "kernel" else number("–", None)


def _dimensions(kernel: KernelSummary, size: tuple[int, int, int] | None) -> Cell:
    if size is None:
        return _of_kernel(kernel, NOT_RECORDED, None)
    return _of_kernel(kernel, " × ".join(map(str, size)), size[0] * size[1] * size[2])


def _said_by_name(kernel: KernelSummary, value: str | None) -> Cell:
    return words(value or _UNSAID) if kernel.kind == "kernel" else words("–")


def _limiter(kernel: KernelSummary) -> Cell:
    """What bounds the occupancy, and under it what there is to say: a false 0 %, or why nothing was computed."""
    limiter = kernel.occupancy_limiter or (NOT_RECORDED if kernel.kind == "kernel" else "–")
    if kernel.occupancy_note is None:
        return words(limiter)
    note = element("span", kernel.occupancy_note, class_="sentence")
    return Cell(content=join((element("span", limiter), note)), sort_key=limiter)


def _tensor_cores(kernel: KernelSummary) -> str:
    if kernel.kind != "kernel":
        return "–"
    return {True: "yes", False: "no", None: _UNSAID}[kernel.uses_tensor_cores]


PANEL = html_panel("kernels", "Kernels", render, stays_mounted=True)
