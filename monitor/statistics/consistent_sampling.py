"""Decides which traces to keep, as pure functions of the trace: consistent probability sampling, and a keyed draw.

Definitions: OpenTelemetry specification, "TraceState: Probability Sampling". A trace has 56 random bits R: the last
seven bytes of its id, or `rv` in its tracestate. A sampler with the rejection threshold T keeps it exactly if R >= T,
that is with probability (2^56 - T) / 2^56. So a sampler with a lower threshold keeps all that a stricter one keeps.
"""

from __future__ import annotations

import functools
import hashlib
import re

_ALL = 1 << 56
_DIGITS = 14
_HEX_LENGTH = 32
_OT = re.compile(r"(?:^|,)[ \t]*ot=([^,]*)")
_THRESHOLD = re.compile(r"[0-9a-f]{1,14}")
_RANDOM = re.compile(r"[0-9a-f]{14}")
_LONGEST_KEY = 64


def keep(trace_id: bytes, trace_state: str, rate: float) -> tuple[bool, float]:
    """Return whether a trace is kept at `rate` (0 <= rate <= 1), and its overall probability of being kept.

    The probability is the upstream sampler's (`th` in the tracestate of a span; 1 without it) times `rate`. A threshold
    that is malformed or contradicts the randomness (the trace should have been dropped) is ignored.
    """
    if not trace_state:
        return int.from_bytes(trace_id[-7:]) >= _ALL - round(rate * _ALL), rate
    fields = _ot_fields(trace_state)
    random_bits = _randomness(trace_id, fields)
    upstream = parse_threshold(fields.get("th", "")) or 0
    if random_bits < upstream:
        upstream = 0
    kept = round((_ALL - upstream) * rate)
    return random_bits >= _ALL - kept, kept / _ALL


@functools.lru_cache(16)
def lowest_kept(rate: float) -> bytes:
    """Return the end of the lowest trace id that `keep` keeps at `rate` without tracestate: seven bytes, or eight.

    The last seven bytes of a kept id are not below it; those of any other id are.
    """
    threshold = _ALL - round(rate * _ALL)
    return threshold.to_bytes(7) if threshold < _ALL else b"\xff" * 8


def chosen(trace_id: str, salt: str, probability: float) -> bool:
    """Return whether a trace is chosen with `probability`, by a hash of its id keyed with `salt`.

    The result is the same on every call and in every process. A trace chosen at one probability is chosen at every
    greater one. The draw is independent of `keep` and of draws with another salt.
    """
    return _draw(trace_id, salt) < probability * _ALL


def value(trace_id: str, salt: str) -> float:
    """Return the value (0 <= value < 1) above which a probability chooses the trace, in `chosen`."""
    return _draw(trace_id, salt) / _ALL


def least_rate(trace_id: bytes) -> float:
    """Return the lowest rate (0 < rate <= 1) at which `keep` keeps a trace without tracestate."""
    return (_ALL - int.from_bytes(trace_id[-7:])) / _ALL


def randomness(trace_id: bytes, trace_state: str) -> int:
    """Return the 56 random bits of a trace: a valid `rv` in the tracestate, else the last seven bytes of the id."""
    return _randomness(trace_id, _ot_fields(trace_state))


def sampling_id(request_id: str) -> bytes:
    """Return the 16 bytes by which `keep` samples a request: its trace id in hex, else a hash of its id.

    So a row and the trace of the same request agree.
    """
    if len(request_id) == _HEX_LENGTH:
        try:
            return bytes.fromhex(request_id)
        except ValueError:
            pass
    return hashlib.blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def parse_threshold(text: str) -> int | None:
    """Parse a `th` value: one to fourteen lower-case hex digits without trailing zeros; None if it is invalid."""
    return int(text.ljust(_DIGITS, "0"), 16) if _THRESHOLD.fullmatch(text) else None


@functools.lru_cache(256)
def _draw(trace_id: str, salt: str) -> int:  # all evaluators draw the same
    key = salt.encode("utf-8", "surrogatepass")
    if len(key) > _LONGEST_KEY:
        key = hashlib.blake2b(key).digest()
    digest = hashlib.blake2b(trace_id.encode("utf-8", "surrogatepass"), key=key, digest_size=7).digest()
    return int.from_bytes(digest)


def _ot_fields(trace_state: str) -> dict[str, str]:
    """Return the sub-keys of the first `ot` entry of a tracestate."""
    found = _OT.search(trace_state)
    if found is None:
        return {}
    pairs = (part.partition(":") for part in found[1].strip().split(";"))
    return {key: value for key, _, value in pairs}


def _randomness(trace_id: bytes, fields: dict[str, str]) -> int:
    explicit = fields.get("rv", "")
    return int(explicit, 16) if _RANDOM.fullmatch(explicit) else int.from_bytes(trace_id[-7:])
