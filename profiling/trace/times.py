"""Times as the profiler writes them, in microseconds, to integer nanoseconds without a rounding of their own.

A double holds 1.7e15 µs only to the nearest 0.25 µs, so that times are read from the digits of the text.
"""

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

import msgspec
from msgspec import Raw

# Of either sign, 292 years: what does not fit a 64-bit integer is no time.
LARGEST_NS = 2**63 - 1
_NUMBER = re.compile(rb"(-?\d+)(?:\.(\d+))?(?:[eE]([-+]?\d{1,4}))?")
_WHOLE_DIGITS = len(str(LARGEST_NS)) - 4  # of so many in µs, any is a time
_LONGEST_NUMBER = 400  # characters: a double's every digit
_DIGITS = b"0123456789"
_DECODE_INTEGERS = msgspec.json.Decoder(list[int]).decode
_TO_ZERO = bytes(ord("0") if code in _DIGITS else code for code in range(256))


def read_times(written: Sequence[Raw]) -> tuple[list[int], bool]:
    """Nanoseconds of each time, a half to the even one, and whether all were times; what was none gives -1.

    A profiler writes all of its times in one way: with three decimals, or whole up to torch 2.3. Taken together such
    times cost a fifth of what they cost one by one.
    """
    text = b",".join(written)
    separators = text.translate(None, _DIGITS)
    times: list[int] | None = None
    if separators == b"," * (len(written) - 1):
        whole = _read_integers(text)
        times = None if whole is None else [time * 1000 for time in whole]
    elif separators == b".," * (len(written) - 1) + b".":
        shape = text.translate(_TO_ZERO)
        if shape.endswith(b".000") and shape.count(b".000,") == len(written) - 1:
            times = _read_integers(text.replace(b".", b""))
    # One time that is not written joins to an empty text, which is a list of none.
    if times is not None and len(times) == len(written) and max(times, default=0) <= LARGEST_NS:
        return times, True
    found = [read_time(bytes(one)) for one in written]
    return [-1 if time is None else time for time in found], None not in found


def _read_integers(text: bytes) -> list[int] | None:
    """The digits between commas as integers; None: two commas have none between them, or too many."""
    try:
        return _DECODE_INTEGERS(b"[" + text + b"]")
    except msgspec.DecodeError:
        # JSON lets no number begin with a zero, as 0.832 does without its point.
        digits = text.split(b",")
        if all(digits) and max(map(len, digits)) <= _LONGEST_NUMBER:
            return list(map(int, digits))
        return None


def read_time(written: bytes) -> int | None:
    """Nanoseconds of one time in any of JSON's notations, or None."""
    whole, _, fraction = written.partition(b".")
    if len(whole) <= _WHOLE_DIGITS and len(fraction) <= 3 and whole.isdigit() and (not fraction or fraction.isdigit()):
        return int(whole + fraction.ljust(3, b"0"))
    match = _NUMBER.fullmatch(written) if len(written) <= _LONGEST_NUMBER else None
    if match is None:
        return None
    whole, fraction, exponent = match.groups()
    # Made from text at once, because arithmetic would round to 28 digits.
    value = Decimal(f"{whole.decode()}.{(fraction or b'0').decode()}E{int(exponent or 0) + 3}")
    if not -LARGEST_NS <= value <= LARGEST_NS:
        return None
    return int(value.to_integral_value(ROUND_HALF_EVEN))
