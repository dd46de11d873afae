"""What every engine's log may hold: PyTorch's own refusal of an allocation."""

import re

from service.readers.start_up_log.printed import AMOUNT, SIZE
from service.readers.start_up_log.rules import Rule

_UNIT = r"[KMG]iB"
_NEEDED = rf"out of memory\. Tried to allocate (?P<needed>{SIZE}) (?P<needed_unit>{_UNIT})"

OUT_OF_MEMORY = (
    Rule(
        "out of memory. Tried to allocate",
        re.compile(
            rf"{_NEEDED}(?:\. ?GPU [0-9]{{1,4}} has a total capaci?ty of (?P<total>{AMOUNT}) (?P<total_unit>{_UNIT})"
            rf" of which (?P<available>{AMOUNT}) (?P<available_unit>bytes|{_UNIT}) is free)?"
        ),
        without="GiB total capacity",
        fails="out_of_memory",
    ),
    # PyTorch up to 2.0
    Rule(
        "GiB total capacity",
        re.compile(
            rf"{_NEEDED} \(GPU [0-9]{{1,4}}; (?P<total>{AMOUNT}) GiB total capacity; {AMOUNT} {_UNIT} already"
            rf" allocated; (?P<available>{AMOUNT}) (?P<available_unit>bytes|{_UNIT}) free"
        ),
        fails="out_of_memory",
    ),
)
