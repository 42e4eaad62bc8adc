"""The estimate of GPU seconds: what it must never get wrong, whatever its constants are tuned to."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.backends import BACKENDS
from attention.fusion.backends import FUSION_BACKENDS
from attention.workload import Direction, DType, Workload
from profiling.budget import (
    COMPILE_S,
    CUDA_FIRST_CALL_S,
    ENVIRONMENT_S,
    KERNEL_LOAD_S,
    ZERO_GPU_COLD_START_S,
    ZERO_GPU_LONGEST_S,
    estimate_gpu_seconds,
    zero_gpu_duration,
)
from profiling.recording import Environment, RunRequest, Schedule

H200 = Environment(device="cuda", device_name="NVIDIA H200", compute_capability=(9, 0))
WORKSTATION = Environment(device="cuda", device_name="RTX PRO 6000", compute_capability=(12, 0))
TWO_CORES = Environment(device="cpu", device_name="CPU", cpu_count=2)
SIX = tuple(
    Workload(backend=name)
    for name in ("naive", "naive_inplace", "sdpa_math", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn")
)

workloads = st.builds(
    Workload,
    backend=st.sampled_from(
        [workload.backend for workload in SIX]
        + ["sdpa_auto", "flex", "compiled_naive", "a_backend_without_an_allowance"]
    ),
    batch_size=st.integers(1, 64),
    num_heads=st.sampled_from([1, 8, 32]),
    kv_heads=st.just(1),
    seq_len_q=st.integers(1, 65_536),
    seq_len_kv=st.integers(1, 65_536),
    head_dim=st.integers(1, 512),
    dtype=st.sampled_from(list(DType)),
)
environments = st.sampled_from([None, H200, WORKSTATION, TWO_CORES])


@given(workloads, environments, st.sampled_from(["batch_size", "seq_len_q", "seq_len_kv", "head_dim"]))
def test_more_work_never_costs_less(workload: Workload, environment: Environment | None, size: str) -> None:
    doubled = replace(workload, **{size: 2 * getattr(workload, size)})
    assert estimate_gpu_seconds([doubled], environment) > estimate_gpu_seconds([workload], environment)


@given(st.lists(workloads, max_size=4), workloads, environments)
def test_each_workload_adds_its_own_share(
    some: list[Workload], another: Workload, environment: Environment | None
) -> None:
    together = estimate_gpu_seconds([*some, another], environment)
    apart = estimate_gpu_seconds(some, environment) + estimate_gpu_seconds([another], environment) - ENVIRONMENT_S
    assert together == pytest.approx(apart)


@given(workloads, environments)
def test_a_shallower_run_costs_less(workload: Workload, environment: Environment | None) -> None:
    alone = estimate_gpu_seconds([workload], environment, depth="environment")
    check = estimate_gpu_seconds([workload], environment, depth="check")
    assert 0 < alone < check < estimate_gpu_seconds([workload], environment)


@given(workloads)
def test_an_unknown_device_is_taken_for_the_slowest_gpu(workload: Workload) -> None:
    unknown = estimate_gpu_seconds([workload], None)
    assert unknown >= max(estimate_gpu_seconds([workload], known) for known in (H200, WORKSTATION))


@given(workloads, environments)
def test_gradients_cost_more(workload: Workload, environment: Environment | None) -> None:
    backward = replace(workload, direction=Direction.FORWARD_BACKWARD)
    assert estimate_gpu_seconds([backward], environment) > estimate_gpu_seconds([workload], environment)


@given(workloads, st.integers(3, 50))
def test_a_longer_schedule_costs_more(workload: Workload, active: int) -> None:
    longer = estimate_gpu_seconds([workload], H200, schedule=Schedule(active=active + 1))
    assert longer > estimate_gpu_seconds([workload], H200, schedule=Schedule(active=active))


def test_the_tutorials_case_takes_seconds_on_a_gpu_and_more_cores_help_a_cpu() -> None:
    """The bars: one warm run within 1 s of an H200 and six backends within 4 s; an estimate may lean high."""
    assert 0.5 < estimate_gpu_seconds([Workload(backend="sdpa_flash")], H200) < 2
    assert 2 < estimate_gpu_seconds(SIX, H200) < 8
    eight = replace(TWO_CORES, cpu_count=8)
    assert estimate_gpu_seconds(SIX, eight) < estimate_gpu_seconds(SIX, TWO_CORES)


def test_zero_gpu_gets_whole_seconds_that_cover_a_cold_start_and_spare_the_quota() -> None:
    request = RunRequest(workloads=(Workload(),))
    duration = zero_gpu_duration(request, "a progress bar", event="run")
    assert isinstance(duration, int)
    assert duration > ZERO_GPU_COLD_START_S + estimate_gpu_seconds(request.workloads, None)
    assert duration <= 12  # of the 120 s a day that a visitor without an account has
    assert zero_gpu_duration(RunRequest(workloads=(), depth="environment")) < duration


def test_a_hopeless_request_stays_a_duration_that_the_scheduler_can_refuse() -> None:
    huge = Workload(backend="naive", batch_size=64, seq_len_q=1_048_576, seq_len_kv=1_048_576)
    assert zero_gpu_duration(RunRequest(workloads=(huge,))) == ZERO_GPU_LONGEST_S


@pytest.mark.parametrize("machine", [H200, TWO_CORES])
def test_compiling_is_added_to_the_first_call(machine: Environment) -> None:
    eager = estimate_gpu_seconds([Workload(backend="naive")], machine)
    compiled = estimate_gpu_seconds([Workload(backend="compiled_naive")], machine)
    tuned = estimate_gpu_seconds([Workload(backend="compiled_naive_max_autotune")], machine)
    assert eager + 1 < compiled < tuned


@pytest.mark.parametrize(
    ("allowances", "slug"),
    [(COMPILE_S, "flex"), (COMPILE_S, "paged_flex"), (KERNEL_LOAD_S, "flash_attn4"), (CUDA_FIRST_CALL_S, "naive")],
)
def test_a_backend_without_an_allowance_of_its_own_gets_the_largest(
    monkeypatch: pytest.MonkeyPatch, allowances: dict[str, float], slug: str
) -> None:
    """Else ZeroGPU would end its first run; one more backend is one file and one line of the tuple."""
    listed = estimate_gpu_seconds([Workload(backend=slug)], H200)
    monkeypatch.delitem(allowances, slug)
    assert estimate_gpu_seconds([Workload(backend=slug)], H200) >= listed


def test_every_allowance_belongs_to_a_backend() -> None:
    slugs = {backend.slug for backend in (*BACKENDS, *FUSION_BACKENDS)}
    assert {*CUDA_FIRST_CALL_S, *COMPILE_S, *KERNEL_LOAD_S} <= slugs
