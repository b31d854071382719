"""The figures as Markdown for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Any

from measure import Row, Spread
from stage import VARIANTS
from workloads import Measured


def cell(figure: float | None) -> str:
    """Three digits are as much as a busy machine can tell."""
    if figure is None:
        return ""
    return f"{figure:.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def spread(of: Spread) -> str:
    """The quartiles, as a range."""
    return f"{of.low:.2f} .. {of.high:.2f}"


def machine() -> dict[str, Any]:
    """What it was measured on."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def markdown(calls: Sequence[Row], works: Sequence[Measured], rounds: tuple[int, int]) -> str:
    """Both tables."""
    about = machine()
    lines = [
        f"{about['system']}, {about['machine']}, {about['processors']} processors, "
        f"load {about['load']:.1f}. Medians of {rounds[0]} and {rounds[1]} rounds taken in "
        "turn; ratio and spread (quartiles) are of pairs.",
        "",
        "| what | unit | bare | empty preload | noclobber | over | ratio | spread | aim |",
        "|---|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in [*calls, *(work.row for work in works)]:
        figures = [cell(row.median(variant)) for variant in VARIANTS]
        base = "" if row.base == "bare" else f" ({row.base})"
        lines.append(
            f"| {row.name} | {row.unit} | {' | '.join(figures)} | {row.over.middle:+.3g}{base} "
            f"| {row.ratio.middle:.3f} | {spread(row.ratio)} | {row.aim} |"
        )
    lines += [
        "",
        "| one run | processor time | spread | reports | questions | daemon's processor time |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for work in works:
        ratio = work.processor.ratio
        lines.append(
            f"| {work.row.name} | x {ratio.middle:.3f} | {spread(ratio)} | {cell(work.reports)} "
            f"| {cell(work.questions)} | {cell(work.daemon * 1000)} ms |"
        )
    return "\n".join(lines) + "\n"


def as_json(calls: Sequence[Row], works: Sequence[Measured]) -> dict[str, Any]:
    """Every sample, and what was made of them."""
    rows = [_row(row) for row in calls]
    for work in works:
        rows.append(
            _row(work.row)
            | {
                "processor": _row(work.processor),
                "reports": work.reports,
                "questions": work.questions,
                "daemon_seconds": work.daemon,
            }
        )
    return {"machine": machine(), "rows": rows}


def _row(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "unit": row.unit,
        "base": row.base,
        "aim": row.aim,
        "medians": {variant: row.median(variant) for variant in row.samples},
        "over": vars(row.over),
        "ratio": vars(row.ratio),
        "samples": {variant: list(found) for variant, found in row.samples.items()},
    }
