"""Why a run or trace holds no device item, as far as its report tells."""

from profiling.report_schema import Report

ON_CPU = "this ran on the CPU"
ON_GPU = "this ran on a GPU, whose work the profiler did not see"
# A GPU's trace taken with ProfilerActivity.CPU alone looks like one of a CPU: neither launches nor device items.
EITHER = "this ran on the CPU, or the GPU's activity was not recorded"


def explain_no_device(report: Report) -> str:
    """One clause, to stand after a semicolon; only a recorded machine proves that it was the CPU."""
    device = report.environment.device if report.environment else None
    if device == "cpu":
        return ON_CPU
    launches = report.trace_health.launches if report.trace_health else 0
    return ON_GPU if device == "cuda" or launches else EITHER


def answer_without(what: str, on_cpu: str, report: Report) -> str:
    """``on_cpu`` where it was the CPU, else that the answer is not known; and that the trace holds no ``what``."""
    if report.kernels:
        return f"None: the trace holds no {what}, only memory copies and sets."
    why = explain_no_device(report)
    return f"{on_cpu if why == ON_CPU else 'Not known'}: the trace holds no {what}; {why}."
