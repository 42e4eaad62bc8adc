"""The tensors' data type from the type words of a kernel's name, where the name has any."""

import re

# In this order: the first is the tensors' data type, later ones may only be the accumulator's. The words before the
# pattern are looked for first: most names have none of them, and a plain search costs a fraction.
# Source: names in C++ (c10::Half, __nv_bfloat16), their mangled form (DF16b), CUTLASS's and cuBLAS's abbreviations.
_WORDS: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = (
    ("float8", ("e4m3", "e5m2", "loat8", "fp8", "f8"), re.compile(r"e4m3|e5m2|[Ff]loat8|fp8|(?<![a-z0-9])f8_")),
    ("bfloat16", ("bf16", "loat16", "DF16b"), re.compile(r"bf16|BFloat16|bfloat16|DF16b")),
    (
        "float16",
        ("fp16", "Half", "half", "loat16", "f16", "DF16_", "gemm"),
        re.compile(
            r"fp16|\bHalf\b|c104Half|half_t\b|__half|(?<!b)float16|_Float16|DF16_|(?<![a-z0-9])f16|(?<=_)h[\dx]{3,}gemm|hgemm"
        ),
    ),
    ("int8", ("s8", "i8", "int8"), re.compile(r"(?<![a-z0-9])[si]8(?![a-z0-9]*[b-hj-rt-z])|(?<!u)int8")),
    ("float64", ("double", "f64", "gemm"), re.compile(r"\bdouble\b|(?<![a-z0-9])f64|dgemm|(?<=_)d\d{3,5}gemm")),
    ("float32", ("float", "f32", "sgemm"), re.compile(r"\bfloat\b|(?<![a-z0-9])t?f32|sgemm")),
    ("bool", ("<bool",), re.compile(r"<bool\b")),
    ("int64", ("long",), re.compile(r"(?:<|lambda\()long\b")),
    ("int32", ("<int", "(int"), re.compile(r"(?:Functor|Functor_add|ReduceOp)<int\b|lambda\(int, (?:int|bool)\)")),
)
# Of a library that nothing is known of: a word for float may be the accumulator's or a parameter's, these are not.
_CERTAIN = frozenset({"float8", "bfloat16", "float16"})
# Generated names end in hashes, whose digits spell types by chance.
_HASH = re.compile(r"(?:0x)?[0-9a-f]{12,}")


def read_data_type(name: str) -> str | None:
    """The data type that the words of a known library's kernel name; None: there are none."""
    for data_type, words, pattern in _WORDS:
        if any(word in name for word in words) and pattern.search(name):
            return data_type
    return None


def read_certain_data_type(name: str) -> str | None:
    """As ``read_data_type`` for a name of no known library: only what can be nothing but the tensors' data type."""
    data_type = read_data_type(_HASH.sub("", name))
    return data_type if data_type in _CERTAIN else None
