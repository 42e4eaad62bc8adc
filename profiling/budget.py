"""How long a run will hold the GPU, estimated before it starts.

A sum of fixed allowances, a first-call allowance by backend, and the calls and the reference, which grow with the
shape. The page shows the estimate, and ZeroGPU reserves by it, so it leans to the high side.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from attention.backends import BACKENDS, DeviceFacts
from attention.fusion.cost import count_bytes_min, count_flops, intermediates_bytes
from attention.fusion.workload import FusionWorkload
from attention.kinds import AnyWorkload, kind_of
from attention.workload import Direction, DType, Workload
from profiling.environment import build_device_facts
from profiling.mask_truth import CALLS_LIMIT_NS as MASK_CALLS_LIMIT_NS
from profiling.mask_truth import CALLS_MOST as MASK_CALLS_MOST
from profiling.recording import Environment, RunRequest, Schedule
from profiling.timing import CLOCK_LIMIT_S, CPU_CLOCK_LIMIT_S, SAMPLES_LEAST, SAMPLES_MOST
from profiling.unlocks import UNLOCK_TRIES, find_unlocks

Depth = Literal["environment", "check", "record"]

# Reading the device, versions and flags, once a run.
ENVIRONMENT_S = 0.1
# Inputs, and asking each SDPA backend for its refusal: 0.03 to 0.15 s on two CPU cores.
DECISIONS_S = 0.15
# Drawing query, key and value on the CPU, rounding and copying them: 0.15 to 0.26 s for 25 M elements.
INPUTS_S_PER_ELEMENT = 1e-8
# Profiler start and stop, and writing, reading and compressing the trace: a whole run of a shape too small to
# matter takes 0.15 to 0.4 s on two CPU cores, its decisions included.
PROFILE_S = 0.2
# First call of a backend in a CUDA process, measured on an H200 with torch 2.11: cuBLAS handles for naive (218 ms)
# and math (127 ms), loading one kernel for flash (13 ms), building a plan for cuDNN (682 ms), which auto may choose.
CUDA_FIRST_CALL_S = {
    "naive": 0.22,
    "naive_inplace": 0.22,
    "sdpa_math": 0.13,
    "sdpa_flash": 0.02,
    "sdpa_efficient": 0.05,
    "sdpa_cudnn": 0.7,
    "sdpa_auto": 0.7,
    "eager": 0.22,  # cuBLAS handles too
    "compiled": 0.22,
}
SLOWEST_FIRST_CALL_S = max(CUDA_FIRST_CALL_S.values())
# What compiling adds to a first call, on a CPU too. On an H200 flex took 4.6 s, 8 to 11 s in a ZeroGPU worker, and
# compiled naive 0.9 s; on two CPU cores 3 to 6 s, 1 to 3 s, and 11 s with autotuning, with 4 s more where the process
# had not compiled before. Autotuning on a GPU tries tens of configurations of each product.
COMPILE_S = {
    "flex": 11.0,
    "flex_eager": 2.0,
    "compiled_naive": 5.0,
    "compiled_naive_cudagraph": 6.0,
    "compiled_naive_max_autotune": 60.0,
    "compiled_sdpa": 5.0,
    "compiled": 5.0,
    "paged_flex": 11.0,
    "paged_triton": 3.0,  # one kernel or two, by Triton alone
}
# ZeroGPU's card, whose facts no one has read yet when its seconds are reserved.
UNKNOWN_GPU = DeviceFacts(kind="cuda", compute_capability=(12, 0))
# What a kernel from outside torch adds to a first call: a download of 0.45 GB (flash-attn 2) or 0.8 GB (flash-attn 3)
# where it is not cached, at 40 MB/s; flash-attn 4 compiled for 2.4 to 3.3 s on an H200, its import and the three
# kernels of a backward pass not counted.
KERNEL_LOAD_S = {"hub_flash_attn2": 12.0, "hub_flash_attn3": 20.0, "flash_attn4": 10.0}
# Calls outside the schedule and the clocks: one first, three to warm up, two before a graph's capture, one for
# memory, one whose output is judged, and the independent naive call that its error budget comes from.
OTHER_CALLS = 9
# How often a materialising call passes over its score matrix. Fitted to an H200 at 134 M scores: naive in bfloat16
# takes 1.06 ms, math, which computes in float32, 2.63 ms.
NAIVE_SCORE_PASSES = 10
MATH_SCORE_PASSES = 12
# Two products forward; backward adds five, as cost.py counts them, and passes over the scores about as often for each.
BACKWARD_CALLS = 2.5
# Of the float64 reference: products, scale, mask, softmax and the comparison, each reading and writing.
REFERENCE_SCORE_PASSES = 10

# A worker forked for a first call on ZeroGPU: fork, CUDA context, cuDNN and the first profile took 5.2 s on one
# H200 and 8.0 s on another, where the first profile alone took 5.3 s.
ZERO_GPU_COLD_START_S = 9.0
# Reserved seconds that run out abort the run; unused ones cost the visitor nothing but a stricter quota check.
ZERO_GPU_MARGIN = 1.5
# A duration of a day or more would lose its days: the scheduler's client sends ``timedelta.seconds``.
ZERO_GPU_LONGEST_S = 86_399


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """What a call reaches, well under the device's peaks; FLOP/s by element type, bytes/s."""

    half: float
    single: float
    double: float
    bytes_per_s: float

    def flops_per_s(self, itemsize: int) -> float:
        """The rate for elements of this many bytes."""
        return {2: self.half, 4: self.single, 8: self.double}[itemsize]


# A third or less of the published peaks. H200: bfloat16 989, float32 67, float64 34 TFLOP/s, 4.8 TB/s.
_DATA_CENTER = _Rates(half=150e12, single=20e12, double=10e12, bytes_per_s=1.5e12)
# Half a RTX PRO 6000 Blackwell, as ZeroGPU slices it. The whole: bfloat16 500, float32 125 TFLOP/s, float64 1/64 of
# that, 1.8 TB/s.
_WORKSTATION = _Rates(half=60e12, single=15e12, double=0.5e12, bytes_per_s=0.5e12)
# One core with AVX2; two reach 85 to 130 GFLOP/s in the flash path and move 13 GB/s in a softmax over scores.
_CPU_CORE = _Rates(half=40e9, single=40e9, double=20e9, bytes_per_s=6e9)
# Compute capabilities whose float64 units run at half the float32 rate.
_FULL_FLOAT64 = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}


def estimate_gpu_seconds(
    workloads: Iterable[AnyWorkload],
    environment: Environment | None,
    *,
    depth: Depth = "record",
    schedule: Schedule | None = None,
    measure_unlocks: bool = False,
) -> float:
    """Seconds that one entry with these workloads holds the device, in a process that is already warm.

    ``environment`` None: the device is not known yet; the slowest GPU that the app is hosted on is assumed.
    """
    seconds = ENVIRONMENT_S
    if depth == "environment":
        return seconds
    for workload in workloads:
        seconds += DECISIONS_S
        if depth == "record":
            seconds += _record_seconds(workload, environment, schedule or Schedule())
        if measure_unlocks and isinstance(workload, Workload):
            seconds += _unlock_seconds(workload, environment)
    return seconds


def zero_gpu_duration(request: RunRequest, *args: object, **kwargs: object) -> int:
    """Whole seconds to reserve on ZeroGPU for ``request``; called with all the arguments of the GPU function."""
    seconds = estimate_gpu_seconds(
        request.workloads,
        None,
        depth=request.depth,
        schedule=request.schedule,
        measure_unlocks=request.measure_unlocks,
    )
    return min(math.ceil(ZERO_GPU_COLD_START_S + ZERO_GPU_MARGIN * seconds), ZERO_GPU_LONGEST_S)


def _record_seconds(workload: AnyWorkload, environment: Environment | None, schedule: Schedule) -> float:
    on_cpu = environment is not None and environment.device == "cpu"
    rates = _rates(environment)
    backward_calls = BACKWARD_CALLS if workload.direction is Direction.FORWARD_BACKWARD else 0
    call_s = _call_seconds(workload, rates) * (1 + backward_calls)
    calls = OTHER_CALLS + schedule.wait + schedule.warmup + schedule.active
    # One clock around the call on a CPU; on a GPU one pass for submission and wall, one of graph replays.
    clocks_s = _clock_seconds(call_s, CPU_CLOCK_LIMIT_S) if on_cpu else 2 * _clock_seconds(call_s, CLOCK_LIMIT_S)
    first_call_s = _first_call_seconds(workload, on_cpu=on_cpu)
    inputs_s = INPUTS_S_PER_ELEMENT * kind_of(workload).count_inputs_bytes(workload) / workload.dtype.itemsize
    # The output has a reference of its own; that of the gradients runs forward once more.
    reference_s = _reference_seconds(workload, rates) * (1 + (backward_calls and 1 + backward_calls))
    mask_s = 0.0
    if isinstance(workload, Workload) and workload.mask.name != "none":
        # The applied mask is read with as many calls as fit into its limit.
        mask_s = min(MASK_CALLS_MOST * call_s, MASK_CALLS_LIMIT_NS["cpu" if on_cpu else "cuda"] / 1e9)
    return PROFILE_S + inputs_s + first_call_s + calls * call_s + clocks_s + reference_s + mask_s


def _first_call_seconds(workload: AnyWorkload, *, on_cpu: bool) -> float:
    """What the first call of the workload's backend adds; one without an allowance of its own gets the largest."""
    slug = workload.backend
    backend = next((entry for entry in kind_of(workload).backends if entry.slug == slug), None)
    compiles, loads = (backend.compiles, backend.read_source is not None) if backend else (False, False)
    seconds = COMPILE_S.get(slug, max(COMPILE_S.values()) if compiles else 0.0)
    if on_cpu:
        return seconds
    seconds += CUDA_FIRST_CALL_S.get(slug, SLOWEST_FIRST_CALL_S)
    return seconds + KERNEL_LOAD_S.get(slug, max(KERNEL_LOAD_S.values()) if loads else 0.0)


def _unlock_seconds(workload: Workload, environment: Environment | None) -> float:
    """Every change that the rules let run, measured like a run without a profile; a trial may leave fewer."""
    facts = UNKNOWN_GPU if environment is None else build_device_facts(environment)
    unprofiled = Schedule(wait=0, warmup=0, active=0)
    seconds = 0.0
    for backend in BACKENDS:
        if backend.is_probed:
            asked = replace(workload, backend=backend.slug)
            unlocks = find_unlocks(asked, backend.check(asked, facts), facts)[:UNLOCK_TRIES]
            seconds += sum(_record_seconds(unlock.workload, environment, unprofiled) - PROFILE_S for unlock in unlocks)
    return seconds


def _clock_seconds(call_s: float, limit_s: float) -> float:
    """A clock takes all its samples, or stops at its limit once it has the fewest that a quartile needs."""
    return min(SAMPLES_MOST * call_s, max(limit_s, SAMPLES_LEAST * call_s))


def _call_seconds(workload: AnyWorkload, rates: _Rates) -> float:
    itemsize = workload.dtype.itemsize
    if isinstance(workload, FusionWorkload):
        return count_flops(workload) / rates.flops_per_s(itemsize) + _eager_bytes(workload) / rates.bytes_per_s
    score_bytes = 0
    if workload.backend.startswith(("naive", "compiled_naive")):
        score_bytes = NAIVE_SCORE_PASSES * itemsize * workload.score_count
    elif _takes_math(workload):
        itemsize = max(itemsize, DType.FLOAT32.itemsize)  # math raises half precision to float32
        score_bytes = MATH_SCORE_PASSES * itemsize * workload.score_count
    moved = _tensor_bytes(workload, itemsize) + score_bytes
    return _dense_flops(workload) / rates.flops_per_s(itemsize) + moved / rates.bytes_per_s


def _eager_bytes(workload: FusionWorkload) -> int:
    """Traffic of the eager form: what it writes between its operators is read back."""
    return count_bytes_min(workload) + 2 * intermediates_bytes(workload)


def _takes_math(workload: Workload) -> bool:
    # No fused backend takes float64, so PyTorch's choice lands on math.
    if workload.backend in ("sdpa_auto", "compiled_sdpa", "sdpa_cudagraph"):
        return workload.dtype is DType.FLOAT64
    # FlexAttention's eager form computes as math does, in float32 at least.
    return workload.backend in ("sdpa_math", "flex_eager")


def _reference_seconds(workload: AnyWorkload, rates: _Rates) -> float:
    itemsize = DType.FLOAT64.itemsize
    if isinstance(workload, FusionWorkload):
        moved = _eager_bytes(workload) * itemsize // workload.dtype.itemsize
        return count_flops(workload) / rates.double + moved / rates.bytes_per_s
    moved = _tensor_bytes(workload, itemsize) + REFERENCE_SCORE_PASSES * itemsize * workload.score_count
    return _dense_flops(workload) / rates.double + moved / rates.bytes_per_s


def _dense_flops(workload: Workload) -> int:
    """FLOPs of both products over the whole score matrix: an upper bound, since no mask is taken off."""
    return 2 * workload.score_count * (workload.head_dim + workload.value_dim)


def _tensor_bytes(workload: Workload, itemsize: int) -> int:
    """Bytes of query, key, value and output together."""
    query_and_output = workload.num_heads * workload.seq_len_q
    key_and_value = workload.kv_heads * workload.seq_len_kv
    return (
        itemsize * workload.batch_size * (query_and_output + key_and_value) * (workload.head_dim + workload.value_dim)
    )


def _rates(environment: Environment | None) -> _Rates:
    if environment is None:
        return _WORKSTATION
    if environment.device == "cuda":
        return _DATA_CENTER if environment.compute_capability in _FULL_FLOAT64 else _WORKSTATION
    cores = max(1, environment.cpu_count)
    return _Rates(
        half=cores * _CPU_CORE.half,
        single=cores * _CPU_CORE.single,
        double=cores * _CPU_CORE.double,
        bytes_per_s=cores * _CPU_CORE.bytes_per_s,
    )
