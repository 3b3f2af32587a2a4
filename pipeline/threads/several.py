"""One function for many items, by several threads.

items      a b c d        in order: whichever thread is free takes the next
thread 1   a ▓▓▓ c ▓▓
thread 2   b ▓ ✝          an error: no more are taken, and the first of the errors is raised

Not a ThreadPoolExecutor: that refuses all work as soon as the main thread has ended, and a run in
another thread, for which the interpreter waits, would fail.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], most: int
) -> list[Result]:
    """Return what the function makes of each item; at most so many threads call it.

    >>> in_threads(str.upper, ["a", "b", "c"], 2)
    ['A', 'B', 'C']
    """
    waiting = deque(enumerate(items))
    count = min(most, len(waiting))
    if count <= 1:
        return [function(item) for _, item in waiting]
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}

    def work() -> None:
        while waiting:
            try:
                number, item = waiting.popleft()
            except IndexError:
                return  # another thread was faster
            try:
                results[number] = function(item)
            except BaseException as error:
                errors[number] = error
                waiting.clear()

    threads = [threading.Thread(target=work) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        waiting.clear()  # after an interrupt
        for thread in filter(threading.Thread.is_alive, threads):
            thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(results))]
