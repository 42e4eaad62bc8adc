"""Recordings to test with: real traces, and around them plausible clocks, memory and deltas, marked as test data."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from attention.backends import BACKENDS, Decision, DeviceFacts
from attention.workload import DType, Workload
from profiling.recording import (
    Delta,
    Environment,
    Latency,
    LedgerEntry,
    Memory,
    Recording,
    ReferenceSample,
    Samples,
    Schedule,
)

TRACES = Path(__file__).parent / "data" / "traces"
MIB = 2**20

SampleRecording = Callable[[str], Recording]


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What goes around a trace. The H200's are of the size that this machine gave for the tutorial's case."""

    backend: str
    device_ns: int | None
    submission_ns: int | None
    wall_ns: int
    first_call_ns: int
    materialized_bytes: int | None
    max_abs_error: float


H200 = {
    "naive": Numbers(
        backend="naive",
        device_ns=1_058_000,
        submission_ns=142_000,
        wall_ns=1_160_000,
        first_call_ns=218_000_000,
        materialized_bytes=512 * MIB,
        max_abs_error=1.4e-2,
    ),
    "math": Numbers(
        backend="sdpa_math",
        device_ns=2_621_000,
        submission_ns=310_000,
        wall_ns=2_740_000,
        first_call_ns=127_000_000,
        materialized_bytes=1_536 * MIB,
        max_abs_error=7.8e-3,
    ),
    "efficient": Numbers(
        backend="sdpa_efficient",
        device_ns=177_700,
        submission_ns=41_000,
        wall_ns=214_000,
        first_call_ns=12_000_000,
        materialized_bytes=MIB // 2,
        max_abs_error=9.9e-3,
    ),
    "flash": Numbers(
        backend="sdpa_flash",
        device_ns=97_200,
        submission_ns=44_000,
        wall_ns=138_000,
        first_call_ns=13_000_000,
        materialized_bytes=MIB // 2,
        max_abs_error=9.9e-3,
    ),
    "cudnn": Numbers(
        backend="sdpa_cudnn",
        device_ns=57_500,
        submission_ns=50_000,
        wall_ns=104_000,
        first_call_ns=682_000_000,
        materialized_bytes=MIB // 2,
        max_abs_error=9.9e-3,
    ),
}
CPU = {
    "cpu_flash": Numbers(
        backend="sdpa_auto",
        device_ns=None,
        submission_ns=None,
        wall_ns=520_000,
        first_call_ns=1_900_000,
        materialized_bytes=None,
        max_abs_error=4.2e-7,
    ),
    "cpu_naive": Numbers(
        backend="naive",
        device_ns=None,
        submission_ns=None,
        wall_ns=690_000,
        first_call_ns=3_100_000,
        materialized_bytes=None,
        max_abs_error=5.1e-7,
    ),
}


@pytest.fixture
def sample_recording() -> SampleRecording:
    """``sample_recording("flash")``: naive, math, efficient, flash, cudnn on an H200; cpu_flash, cpu_naive on a CPU."""
    return build_sample


@pytest.fixture
def cpu_recording() -> Recording:
    """SDPA on a CPU, where PyTorch chooses its flash kernel: no device items, one clock."""
    return build_sample("cpu_flash")


@cache
def build_sample(name: str) -> Recording:
    trace_gz = (TRACES / f"{name}.json.gz").read_bytes()
    if name in CPU:
        return _build(CPU[name], trace_gz, cpu_workload(CPU[name].backend), CPU_ENVIRONMENT, CPU_FACTS)
    return _build(H200[name], trace_gz, Workload(backend=H200[name].backend), H200_ENVIRONMENT, H200_FACTS)


def cpu_workload(backend: str) -> Workload:
    """The workload of tests/data/make_cpu_trace.py."""
    return Workload(
        backend=backend,
        batch_size=1,
        num_heads=4,
        kv_heads=4,
        seq_len_q=256,
        seq_len_kv=256,
        head_dim=64,
        dtype=DType.FLOAT32,
    )


H200_FACTS = DeviceFacts(
    kind="cuda",
    name="NVIDIA H200",
    compute_capability=(9, 0),
    total_memory_bytes=150_109_880_320,
    torch_version=(2, 11),
)
CPU_FACTS = DeviceFacts(kind="cpu", name="test CPU", torch_version=(2, 14))
H200_ENVIRONMENT = Environment(
    device="cuda",
    device_name="NVIDIA H200",
    compute_capability=(9, 0),
    sm_count=132,
    total_memory_bytes=150_109_880_320,
    free_memory_bytes=149_000_000_000,
    mig=False,
    driver="580.00",
    cuda="13.0",
    cudnn="9.19.0",
    torch="2.11.0+cu130",
    triton="3.6.0",
    python="3.12.0",
    platform="Linux (test data)",
    cpu_count=16,
    flags={"test data": True},
    captured_at="2026-11-29T10:00:00+00:00",
)
CPU_ENVIRONMENT = Environment(
    device="cpu",
    device_name="test CPU",
    total_memory_bytes=8 * 1024 * MIB,
    torch="2.14.1",
    python="3.11.0",
    platform="Linux (test data)",
    cpu_count=2,
    flags={"test data": True},
    captured_at="2026-11-29T10:00:00+00:00",
)


def spread_samples(median_ns: int, count: int = 21) -> tuple[int, ...]:
    """``count`` durations around the median, 0.1 % of it apart."""
    return tuple(median_ns + (index - count // 2) * median_ns // 1000 for index in range(count))


def _build(
    numbers: Numbers, trace_gz: bytes, workload: Workload, environment: Environment, facts: DeviceFacts
) -> Recording:
    tensor_bytes = workload.batch_size * workload.num_heads * workload.seq_len_q * workload.head_dim
    tensor_bytes *= workload.dtype.itemsize
    on_device = numbers.device_ns is not None and numbers.submission_ns is not None
    return Recording(
        workload=workload,
        environment=environment,
        decisions=_decide(workload, facts),
        schedule=Schedule(wait=1, warmup=2 if environment.device == "cuda" else 1, active=3),
        latency=Latency(
            device=Samples(
                samples_ns=spread_samples(numbers.device_ns or 0), method="CUDA graph replay (test data)", l2="warm"
            )
            if on_device
            else None,
            submission=Samples(
                samples_ns=spread_samples(numbers.submission_ns or 0), method="host clock until return (test data)"
            )
            if on_device
            else None,
            wall=Samples(samples_ns=spread_samples(numbers.wall_ns), method="host clock around the call (test data)"),
            first_call_ns=numbers.first_call_ns,
        ),
        memory=Memory(
            peak_bytes=None if numbers.materialized_bytes is None else 4 * tensor_bytes + numbers.materialized_bytes,
            inputs_bytes=3 * tensor_bytes,
            output_bytes=tensor_bytes,
            materialized_bytes=numbers.materialized_bytes,
        ),
        correctness=(_delta(workload, numbers),),
        inputs_fingerprint={"query": 11, "key": 22, "value": 33},
        ledger=(
            LedgerEntry(stage="first_call", wall_ns=numbers.first_call_ns),
            LedgerEntry(stage="profile", wall_ns=90_000_000),
        ),
        gpu_seconds=0.61 if on_device else None,
        trace_gz=trace_gz,
    )


def _decide(workload: Workload, facts: DeviceFacts) -> tuple[Decision, ...]:
    return tuple(backend.check(workload, facts) for backend in BACKENDS)


def _delta(workload: Workload, numbers: Numbers) -> Delta:
    return Delta(
        tensor="output",
        max_abs_error=numbers.max_abs_error,
        rms_error=numbers.max_abs_error / 10,
        error_budget=numbers.max_abs_error * 2.5,
        budget_basis="2 × the error of an independent run in the same dtype (test data)",
        within_budget=True,
        nan_count=0,
        inf_count=0,
        worst_index=(0, 1, workload.seq_len_q - 1, 2),
        worst_value=0.25,
        worst_reference=0.25 - numbers.max_abs_error,
        dead_rows=0,
        reference="float64 on the same rounded inputs (test data)",
        reference_samples=(ReferenceSample(index=(0, 0, 0, 0), value=0.125),),
    )
