"""The lines of a log that an engine may have written, each with its number and the ranks that wrote it.

A log is searched for what engines say as a whole, and only the lines that hold some of it are looked at: how many
others there are takes no time of its own. Prefixes of containers and their timestamps need no stripping.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from service.readers.start_up_log.wrapped import is_partial, unwrapped

LONGEST_LINE = 2**16
"""Characters that are read of one line; the longest that an engine writes are its arguments, some 20,000."""

MOST_ANCHORS = 2**16
"""How often a log may say what engines say: a start of a thousand ranks does so some ten thousand times."""

_BLOCK = 2**15
"""Characters in which anchors are counted together, from the end on."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")

_PREFIX = 200
"""Characters at the beginning of a line in which its rank is looked for, should the rest be written over."""

_HOLES = "\0\ufffd\ufeff"
"""What stands before the first line of a log whose beginning was cut off while it was written, or bears a mark."""

_RANK = re.compile(
    # vLLM: (EngineCore_DP0 pid=7), (Worker_DP0_TP1 pid=7), (VllmWorker TP1 pid=7); before 0.10.2 (EngineCore_0 pid=7)
    r"\((?:EngineCore|Worker|VllmWorker)[_ ](?P<ranks>[A-Z]{2,3}\d{1,5}(?:_[A-Z]{2,4}\d{1,5}){0,5}) pid="
    r"|\(EngineCore_(?P<copy>\d{1,5}) pid="
    # vLLM 0.8: (VllmWorker rank=1 pid=7); the first engine: (VllmWorkerProcess pid=7), (RayWorkerWrapper pid=7, ip=...)
    r"|\(VllmWorker rank=(?P<worker>\d{1,5}) pid="
    r"|\((?:VllmWorkerProcess|RayWorkerWrapper|RayWorkerVllm) (?P<process>pid=\d{1,9})"
    # SGLang: [2026-01-01 10:00:00 DP0 TP1]; its first releases: [gpu_id=1]
    r"|\[[\d: ,.-]{8,30} (?P<spaced>[A-Z]{2,4}\d{1,5}(?: [A-Z]{2,4}\d{1,5}){0,4})\]"
    r"|\[(?P<gpu>gpu(?:_id)?=\d{1,5})\b"
    # TensorRT-LLM: [TRT-LLM] [RANK 1] [I]; mpirun --tag-output: [1,1]<stdout>:
    r"|\[RANK (?P<number>\d{1,5})\]"
    r"|\[\d{1,5},(?P<tag>\d{1,5})\]<std(?:out|err)>",
    re.ASCII,
)
_SHOWN = {"copy": "DP", "worker": "rank=", "number": "rank=", "tag": "rank="}


class Line(msgspec.Struct):
    """One line; `whole` is false where its end is missing, so that its last digits may be."""

    number: int
    text: str
    whole: bool = True
    anchors: tuple[str, ...] = ()
    """Those of the texts that were searched for that it holds."""
    overwritten: str = ""
    """How the line began that a progress bar then wrote over."""
    _ranks: list[tuple[int, str]] | None = None
    """Where the prefix of each rank ends; null until one is asked for."""

    def rank_at(self, position: int) -> str | None:
        """The rank that wrote what stands at a position: `TP0`, `DP0_TP1`, `rank=1`.

        Where records of several ranks run into each other, each has its own prefix.
        """
        if self._ranks is None:
            self._ranks = [(one.end(), _shown(one)) for one in _RANK.finditer(self.text)]
        own = next((rank for end, rank in reversed(self._ranks) if end <= position), None)
        if own is not None or not self.overwritten:
            return own
        begun = _RANK.search(self.overwritten)
        return None if begun is None else _shown(begun)


def _shown(found: re.Match[str]) -> str:
    kind = found.lastgroup or ""
    return f"{_SHOWN.get(kind, '')}{found[kind]}"


def text_of(body: bytes) -> str:
    """Decode a log: UTF-8, or UTF-16 where it begins with such a mark, as shells of Windows write what they redirect.

    What can't be decoded is replaced: it can't stand in a line that is read.
    """
    # The mark, and the empty half of a letter: other bytes may begin so too.
    wide = (body[:2], body[3:4]) == (codecs.BOM_UTF16_LE, b"\0") or body[:3] == codecs.BOM_UTF16_BE + b"\0"
    return body.decode("utf-16" if wide else "utf-8", errors="replace")


class Held(NamedTuple):
    """The lines of a log that hold an anchor."""

    lines: list[Line]
    left_out: int
    """Lines at the beginning in which nothing was looked for, because so much stands behind them."""


def lines_holding(log: str, anchors: Iterable[str]) -> Held:
    """Find the lines that hold one of the anchors, and the last one where its end is missing.

    Of a log with more than `MOST_ANCHORS` of them the end is read: the last start is the one that counts.

    Each anchor takes one pass over the text, whatever the number of its lines. A carriage return ends what a progress
    bar wrote over: what follows is a line of the same number. What stands below a line that ends in an anchor with a
    colon belongs to it, and is read as if the anchor stood before it.
    """
    text = _COLOUR.sub("", log) if "\x1b" in log else log
    names = tuple(anchors)
    first = _first_read(text, names)
    found: dict[int, _Found] = {}
    for anchor in names:
        for begun, start, end in _holding(text, anchor, first):
            found.setdefault(start, _Found(end, text[begun : min(start, begun + _PREFIX)])).anchors.append(anchor)
            if anchor.endswith(":") and text.startswith((f"{anchor}\n", f"{anchor}\r\n"), end - len(anchor)):
                below = text.index("\n", end) + 1
                if below < len(text):
                    one = found.setdefault(below, _Found(_end(text, below, text.find("\n", below))))
                    one.anchors.append(anchor)
                    one.above = anchor
    last = max(text.rfind("\n"), text.rfind("\r")) + 1
    if last < len(text):
        found.setdefault(last, _Found(len(text)))
    lines: list[Line] = []
    number, before = 1, 0
    for start in sorted(found):
        number += text.count("\n", before, start)
        before = start
        one = found[start]
        lines.append(_line(number, text[start : one.end], one, whole=one.end < len(text)))
    return Held(lines, text.count("\n", 0, first))


def _first_read(text: str, anchors: Iterable[str]) -> int:
    """Where the line begins behind which there are no more than about `MOST_ANCHORS` anchors."""
    there = [anchor for anchor in anchors if anchor in text]
    left = MOST_ANCHORS
    for block in range(len(text) // _BLOCK, -1, -1):
        at = block * _BLOCK
        left -= sum(text.count(anchor, at, at + _BLOCK) for anchor in there)
        if left < 0:
            return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    return 0


class _Found(msgspec.Struct):
    """Where a line ends, what was written over before it, the anchors that it holds and the one above it."""

    end: int
    overwritten: str = ""
    anchors: list[str] = msgspec.field(default_factory=list)
    above: str = ""


def _holding(text: str, anchor: str, first: int) -> Iterator[tuple[int, int, int]]:
    """Find where each line with the anchor was begun, begins and ends, from one on. Nothing is passed over twice."""
    begun, end, feed = first, first, -1
    while (at := text.find(anchor, end)) >= 0:
        begun = max(begun, text.rfind("\n", end, at) + 1)
        start = max(begun, text.rfind("\r", end, at) + 1)
        if feed < at:
            feed = text.find("\n", at)
            feed = len(text) if feed < 0 else feed
        end = _end(text, at, feed)
        yield begun, start, end


def _end(text: str, start: int, feed: int) -> int:
    """Where a line ends of which only the line feed is known, or -1 for none."""
    feed = len(text) if feed < 0 else feed
    returned = text.find("\r", start, feed)
    return feed if returned < 0 else returned


def _line(number: int, text: str, found: _Found, *, whole: bool) -> Line:
    text = text.lstrip(_HOLES)
    whole = whole and len(text) <= LONGEST_LINE and not is_partial(text)
    kept = found.above + text[:LONGEST_LINE]
    message = unwrapped(kept)
    if message is not None:
        kept = _COLOUR.sub("", message)
    elif len(text) <= LONGEST_LINE:
        return Line(number, kept, whole, tuple(found.anchors), found.overwritten)
    return Line(number, kept, whole, tuple(anchor for anchor in found.anchors if anchor in kept), found.overwritten)
