"""Findings, counters and predictions: the values of `--json`, with types."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Source:
    """A position in the author's source."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Access:
    """An instruction that a finding is about: where it is, which threads execute it, and what it does."""

    file: str | None
    line: int | None
    column: int | None
    ptx_line: int
    ptx: str
    text: str
    called_from: tuple[Source, ...] = ()
    inlined_from: tuple[Source, ...] = ()

    @staticmethod
    def _of(value: dict[str, Any]) -> Access:
        def sources(name: str) -> tuple[Source, ...]:
            return tuple(Source(each["file"], each["line"], each["column"]) for each in value[name])

        plain = {name: value[name] for name in ("file", "line", "column", "ptx_line", "ptx", "text")}
        return Access(**plain, called_from=sources("called_from"), inlined_from=sources("inlined_from"))

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else f"ptx:{self.ptx_line}"
        return f"{place}: {self.text}"


@dataclass(frozen=True)
class Finding:
    """What a checker found. `accesses` has the reported one first, then the one that it conflicts with."""

    code: str
    kernel: str
    message: str
    accesses: tuple[Access, ...]
    memory: tuple[Access, ...]
    notes: tuple[str, ...]
    help: str | None
    count: int
    schedules: tuple[str, ...]
    follows_from: int | None
    json: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @staticmethod
    def _of(value: dict[str, Any]) -> Finding:
        return Finding(
            code=value["code"],
            kernel=value["kernel"],
            message=value["message"],
            accesses=tuple(Access._of(each) for each in value["labels"]),
            memory=tuple(Access._of(each) for each in value["memory"]),
            notes=tuple(value["notes"]),
            help=value["help"],
            count=value["count"],
            schedules=tuple(value["schedules"]),
            follows_from=value["follows_from"],
            json=value,
        )

    @property
    def lines(self) -> tuple[int | None, ...]:
        """The lines of the accesses."""
        return tuple(access.line for access in self.accesses)

    def __str__(self) -> str:
        return "\n  ".join([f"{self.code}: {self.message}", *map(str, self.accesses)])


@dataclass(frozen=True)
class LaunchCounts:
    """What a launch executed; zeros on a GPU."""

    warp_instructions: int
    lane_operations: int
    mma_multiply_adds: int


@dataclass(frozen=True)
class LineStalls:
    """The warp cycles at a line, by what the warps wait for."""

    file: str | None
    line: int
    text: str
    cycles: int
    stalls: dict[str, int]


class Prediction:
    """The predicted time of launches. `str` is the table of `warpwright time`, `json` its value."""

    def __init__(self, value: str, text: str) -> None:
        self.json: dict[str, Any] = json.loads(value)
        self.text = text

    @property
    def microseconds(self) -> float:
        """Of all launches together."""
        return float(self.json["microseconds"])

    @property
    def cycles(self) -> int:
        """SM cycles of all launches together."""
        return int(self.json["cycles"])

    @property
    def error_estimate(self) -> float:
        """The error that 9 of 10 predictions stay below, as a part of the time."""
        return float(self.json["error_estimate"])

    @property
    def launches(self) -> list[dict[str, Any]]:
        """The prediction of each launch: `prediction` in docs/json.md."""
        return list(self.json["launches"])

    @property
    def lines(self) -> list[LineStalls]:
        """The lines of all launches, those with the most cycles first."""
        lines: dict[tuple[str | None, int], LineStalls] = {}
        for launch in self.launches:
            for instruction in launch["instructions"]:
                source = instruction["source"]
                place = (source["file"], source["line"]) if source else (None, instruction["ptx_line"])
                file, line = place
                old = lines.get(place, LineStalls(file, line, instruction["text"], 0, {}))
                stalls = dict(old.stalls)
                for reason, cycles in instruction["stalls"].items():
                    stalls[reason] = stalls.get(reason, 0) + cycles
                lines[place] = LineStalls(file, line, old.text, sum(stalls.values()), stalls)
        return sorted(lines.values(), key=lambda line: -line.cycles)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Prediction({self.microseconds:.2f} us, {self.cycles} cycles)"


class Report:
    """What launches did, by line. `str` is the table of `warpwright report`, `json` its value."""

    def __init__(self, value: str, text: str) -> None:
        self.json: dict[str, Any] = json.loads(value)
        self.text = text

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """Each kernel: `kernel report` in docs/json.md."""
        return list(self.json["kernels"])

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of all kernels, the most costly of each first: `line report` in docs/json.md."""
        return [line for kernel in self.kernels for line in kernel["lines"]]

    @property
    def advice(self) -> list[str]:
        """What to change."""
        return [advice for kernel in self.kernels for advice in kernel["advice"]]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Report({', '.join(kernel['kernel'] for kernel in self.kernels)})"
