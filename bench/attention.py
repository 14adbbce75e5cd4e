"""Attention alone, anyshape's kernel beside PyTorch's scaled_dot_product_attention: paired, and against the FMA rate."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from anyshape.cli.timing import alternate
from bench.figures import paired_ratio, spread
from bench.micro_attention import CASES, MASKS, Attention, both
from bench.settings import Settings

FURTHER_CASES = (
    ("BERT 1x64", 1, 12, 12, 64, 64, 64),
    ("BERT 16x128", 16, 12, 12, 128, 128, 64),
    ("BERT 1x1024", 1, 12, 12, 1024, 1024, 64),
    ("Llama 1x32", 1, 32, 8, 32, 32, 64),
    ("one query, 2048", 1, 32, 8, 1, 2048, 64),
    ("one query, 8 sentences", 8, 32, 8, 1, 333, 64),
)


def measure_attention(run: Settings) -> list[dict[str, Any]]:
    """Microseconds and paired ratios of every mask and case; one compilation a mask."""
    rows: list[dict[str, Any]] = []
    for mask in MASKS:
        attention = Attention(run.threads, mask)
        for name, *case in (*CASES, *FURTHER_CASES):
            b, h, hk, s, t, d = case
            # PyTorch aligns the triangle with the first key: a query after many keys would see that one alone.
            if mask == "causal" and s < t:
                continue
            run.say(f"attention, {mask}, {name}")
            row = _compare(attention, mask, (b, h, hk, s, t, d), run)
            rows.append({"mask": mask, "case": name, "heads": h, "key_heads": hk, "queries": s, "keys": t, **row})
    return rows


def _compare(attention: Attention, mask: str, case: tuple[int, ...], run: Settings) -> dict[str, Any]:
    """Seconds of ours and the paired ratio to PyTorch's."""
    ours, theirs = both(attention, mask, case)
    functions = {"ours": ours, "theirs": theirs}
    samples = alternate(functions, seconds=run.layer_seconds * len(functions), block=10)
    b, h, hk, s, t, d = case
    pairs = 0.5 * s * (s + 1) if mask == "causal" else s * t
    # Two products of each pair's d numbers; keys and values read once.
    operations, key_bytes = 4.0 * b * h * pairs * d, 8.0 * b * hk * t * d
    seconds = spread(samples["ours"])
    return {
        "seconds": asdict(seconds),
        "sdpa_seconds": asdict(spread(samples["theirs"])),
        "sdpa_ratio": asdict(paired_ratio(samples["theirs"], samples["ours"])),
        "gflops": 1e-9 * operations / seconds.median,
        "share": run.ceilings.product_ms(operations, key_bytes) / (1e3 * seconds.median),
    }
