import pytest

from attention.cost import count_bytes_min, count_flops, estimate_memory, inputs_bytes, score_matrix_bytes
from attention.validation import parse_workload


def test_tutorial_case():
    workload = parse_workload({})
    # 8 × 16 heads, 1024 × 1025 / 2 allowed pairs, 2 products, 2 × 64 FLOPs a pair each.
    assert count_flops(workload) == 8 * 16 * (1024 * 1025 // 2) * 4 * 64 == 17_196_646_400
    assert score_matrix_bytes(workload) == 256 * 2**20
    assert inputs_bytes(workload) == 48 * 2**20
    assert count_bytes_min(workload) == 64 * 2**20


def test_grouped_heads_save_bytes_and_no_flops():
    full, grouped = parse_workload({}), parse_workload({"kv_heads": 2})
    assert count_flops(full) == count_flops(grouped)
    assert inputs_bytes(full) - inputs_bytes(grouped) == 2 * 8 * 14 * 1024 * 64 * 2


@pytest.mark.parametrize(("backend", "matrices"), [("naive", 2), ("naive_inplace", 2), ("sdpa_flash", 0)])
def test_memory_counts_the_score_matrices_that_a_backend_holds(backend, matrices):
    estimate = estimate_memory(parse_workload({"backend": backend}))
    assert estimate.score_matrices_bytes == matrices * 256 * 2**20
    assert estimate.total_bytes >= 64 * 2**20


def test_reference_memory_has_a_ceiling():
    small, large = (estimate_memory(parse_workload({"seq_len_q": n, "seq_len_kv": n})) for n in (1024, 16384))
    assert large.reference_bytes - small.reference_bytes < 2**30
    assert large.total_bytes < 8 * 2**30


def test_dense_mask_is_counted_where_one_is_passed():
    assert estimate_memory(parse_workload({"backend": "naive"})).mask_bytes == 2**20
    assert estimate_memory(parse_workload({"backend": "sdpa_flash"})).mask_bytes == 0
    assert estimate_memory(parse_workload({"backend": "sdpa_flash", "mask_form": "additive"})).mask_bytes == 2 * 2**20


@pytest.mark.parametrize(("dtype", "element"), [("bfloat16", 4), ("float32", 4), ("float64", 8)])
def test_math_holds_scores_in_float32_or_wider(dtype, element):
    estimate = estimate_memory(parse_workload({"backend": "sdpa_math", "dtype": dtype}))
    assert estimate.score_matrices_bytes == 3 * 8 * 16 * 1024 * 1024 * element
