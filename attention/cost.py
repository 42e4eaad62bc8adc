"""Work and bytes that a workload needs, counted from its shape alone: FLOPs of the allowed cells, least traffic."""

from dataclasses import dataclass

from attention.backends import BACKENDS
from attention.lookup import find
from attention.masks import mask_of
from attention.workload import Direction, MaskForm, Workload

COST_ASSUMPTIONS = (
    "FLOPs count two products (query·keyᵀ and weights·value) over the pairs the mask allows, 2 per multiply-add; "
    "softmax is left out; backward adds five products, the scores computed again among them",
    "least bytes: query, key and value read once, output written once, no score matrix; a mask tensor is left out",
)

# The float64 reference works on blocks of about this many score elements, so that its memory has a ceiling.
REFERENCE_BLOCK_ELEMENTS = 32 * 2**20
# Live float64 arrays of one reference block: scores, weights and one temporary of the softmax.
REFERENCE_ARRAYS = 3
# What autograd keeps besides: the weights, and the gradients of weights and scores.
BACKWARD_REFERENCE_ARRAYS = 3
# The same for a call that writes the score matrix: one more is kept, one more written.
BACKWARD_SCORE_MATRICES = 2


def count_flops(workload: Workload) -> int:
    """FLOPs of one call over the allowed (query, key) pairs."""
    pairs = mask_of(workload).count_allowed(workload) * workload.num_heads
    products = workload.head_dim + workload.value_dim
    if workload.direction is Direction.FORWARD_BACKWARD:
        # scores, grad_query and grad_key over head_dim; grad_value and the weights' gradient over value_dim
        products += 3 * workload.head_dim + 2 * workload.value_dim
    return 2 * pairs * products


def inputs_bytes(workload: Workload) -> int:
    """Bytes of query, key and value."""
    query = workload.num_heads * workload.seq_len_q * workload.head_dim
    key_value = workload.stored_kv_heads * workload.seq_len_kv * (workload.head_dim + workload.value_dim)
    return workload.batch_size * (query + key_value) * workload.dtype.itemsize


def output_bytes(workload: Workload) -> int:
    return workload.batch_size * workload.num_heads * workload.seq_len_q * workload.value_dim * workload.dtype.itemsize


def count_bytes_min(workload: Workload) -> int:
    """Least device traffic of one call: inputs read once, output written once; then the same again for gradients."""
    forward = inputs_bytes(workload) + output_bytes(workload)
    if workload.direction is Direction.FORWARD:
        return forward
    # Query, key, value, output and grad_output read, three gradients written.
    return forward + 2 * inputs_bytes(workload) + 2 * output_bytes(workload)


def score_matrix_bytes(workload: Workload) -> int:
    """One copy of the score matrix in the workload's dtype."""
    return workload.score_count * workload.dtype.itemsize


def mask_bytes(workload: Workload) -> int:
    """Bytes of the dense mask tensor that the call receives; 0 where it receives none."""
    mask, backend = mask_of(workload), find(workload.backend, BACKENDS, field="backend")
    form = mask.resolve_form(workload)
    if form is None or backend.builds_mask or (form is MaskForm.IS_CAUSAL and not backend.takes_dense_mask):
        return 0
    elements = workload.seq_len_q * workload.seq_len_kv
    elements *= workload.batch_size if mask.varies_by_batch else 1
    elements *= workload.num_heads if mask.varies_by_head else 1
    return elements * {MaskForm.ADDITIVE: workload.dtype.itemsize, MaskForm.ADDITIVE_FLOAT32: 4}.get(form, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Bytes that a run holds at its peak, by part."""

    inputs_bytes: int
    output_bytes: int
    mask_bytes: int
    gradients_bytes: int  # grad_output and the three gradients; 0 for a forward call
    score_matrices_bytes: int
    reference_bytes: int  # the float64 block, and the outputs of the two runs that it judges
    held_bytes: int = 0  # what the backend keeps beside these, such as a cache of blocks, and what its call copies

    @property
    def total_bytes(self) -> int:
        """The call and the reference never overlap; the larger one decides."""
        held = self.inputs_bytes + self.output_bytes + self.mask_bytes + self.gradients_bytes + self.held_bytes
        return held + max(self.score_matrices_bytes, self.reference_bytes)

    @property
    def parts(self) -> dict[str, int]:
        """What the total is made of, by name."""
        return {
            "inputs": self.inputs_bytes,
            "output": self.output_bytes,
            "mask": self.mask_bytes,
            "gradients": self.gradients_bytes,
            "score matrices": self.score_matrices_bytes,
            "float64 reference": self.reference_bytes,
            "cache of blocks and copies": self.held_bytes,
        }


def estimate_memory(workload: Workload) -> MemoryEstimate:
    """What a run of ``workload`` will hold, before anything is allocated."""
    backend = find(workload.backend, BACKENDS, field="backend")
    heads_and_keys = workload.num_heads * workload.seq_len_kv
    block = min(workload.score_count, max(REFERENCE_BLOCK_ELEMENTS, heads_and_keys))
    backward = workload.direction is Direction.FORWARD_BACKWARD
    matrices = backend.score_matrices
    if backward and matrices:
        matrices += BACKWARD_SCORE_MATRICES
    float64_copies = 8 * (inputs_bytes(workload) // workload.batch_size) // workload.dtype.itemsize
    return MemoryEstimate(
        inputs_bytes=inputs_bytes(workload),
        output_bytes=output_bytes(workload),
        mask_bytes=mask_bytes(workload),
        gradients_bytes=inputs_bytes(workload) + output_bytes(workload) if backward else 0,
        score_matrices_bytes=int(workload.score_count * matrices * backend.score_element(workload.dtype)),
        reference_bytes=block * 8 * (REFERENCE_ARRAYS + backward * BACKWARD_REFERENCE_ARRAYS)
        + float64_copies * (2 if backward else 1)
        + output_bytes(workload),
        held_bytes=0 if backend.held_bytes is None else backend.held_bytes(workload),
    )
