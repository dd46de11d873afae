"""Work that takes more than a moment, kept away from the loop that answers everybody."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar, TypeVarTuple

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

LARGE = 2**15
"""Bytes from which on a question counts as large: a few hundred bins stay below, thousands of rows don't."""

_for_large = ThreadPoolExecutor(2, thread_name_prefix="large")


async def off_loop(size: int, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """Run work on a question of so many bytes in a thread, large ones a few at a time.

    Python runs one thread at a time: more than a few at work, and the loop that answers everybody else waits.
    """
    finite = partial(_run, work, *arguments)
    if size < LARGE:
        return await asyncio.to_thread(finite)
    return await asyncio.get_running_loop().run_in_executor(_for_large, finite)


def _run(work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """No future can hold a `StopIteration`: whoever waits for it would wait for good."""
    try:
        return work(*arguments)
    except StopIteration as error:
        raise RuntimeError(f"{work} ran out of what it looked for") from error
