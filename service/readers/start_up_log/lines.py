"""The lines of a log, without colours, each with its number and the rank that wrote it.

Prefixes of containers and their timestamps need no stripping: what an engine says is searched for in the line.
"""

import re
from collections.abc import Iterator

import msgspec

LONGEST_LINE = 2**16
"""Characters that are read of one line; the longest that an engine writes are its arguments, some 20,000."""

_PREFIX = 400
"""Characters at the beginning of a line in which its rank is looked for."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")

_RANKS = (
    # vLLM: (EngineCore_DP0 pid=7), (Worker_DP0_TP1 pid=7), (VllmWorker TP1 pid=7); before 0.10.2 (EngineCore_0 pid=7)
    re.compile(r"\((?:EngineCore|Worker|VllmWorker)[_ ](?P<rank>[A-Z]{2,3}\d{1,5}(?:_[A-Z]{2,4}\d{1,5}){0,5}) pid="),
    re.compile(r"\(EngineCore_(?P<data_parallel>\d{1,5}) pid="),
    # vLLM 0.8: (VllmWorker rank=1 pid=7); the first engine: (VllmWorkerProcess pid=7), (RayWorkerWrapper pid=7, ip=...)
    re.compile(r"\(VllmWorker (?P<rank>rank=\d{1,5}) pid="),
    re.compile(r"\((?:VllmWorkerProcess|RayWorkerWrapper|RayWorkerVllm) (?P<rank>pid=\d{1,9})"),
    # SGLang: [2026-01-01 10:00:00 DP0 TP1]; its first releases: [gpu_id=1]
    re.compile(r"\[[\d: ,.-]{8,30} (?P<rank>[A-Z]{2,4}\d{1,5}(?: [A-Z]{2,4}\d{1,5}){0,4})\]"),
    re.compile(r"\[(?P<rank>gpu(?:_id)?=\d{1,5})\b"),
    # TensorRT-LLM: [TRT-LLM] [RANK 1] [I]; mpirun --tag-output: [1,1]<stdout>:
    re.compile(r"\[RANK (?P<rank>\d{1,5})\]"),
    re.compile(r"^\[\d{1,5},(?P<rank>\d{1,5})\]<std(?:out|err)>"),
)


class Line(msgspec.Struct, frozen=True):
    """One line; `whole` is false where its end is missing, so that its last digits may be."""

    number: int
    text: str
    whole: bool = True

    @property
    def rank(self) -> str | None:
        """The rank that wrote the line: `TP0`, `DP0_TP1`, `rank=1`."""
        beginning = self.text[:_PREFIX]
        for pattern in _RANKS:
            found = pattern.search(beginning)
            if found is not None:
                kind, rank = next(iter(found.groupdict().items()))
                return f"DP{rank}" if kind == "data_parallel" else f"rank={rank}" if rank.isdigit() else rank
        return None


def lines_of(log: str) -> Iterator[Line]:
    """Take a log apart at its line feeds; of a line without bounds only the beginning is kept."""
    start, number = 0, 0
    while start < len(log):
        number += 1
        feed = log.find("\n", start)
        end = len(log) if feed < 0 else feed
        text = log[start : min(end, start + LONGEST_LINE)]
        whole = feed >= 0 and end - start <= LONGEST_LINE
        start = end + 1
        if "\x1b" in text:
            text = _COLOUR.sub("", text)
        yield Line(number, text.rstrip("\r"), whole)
