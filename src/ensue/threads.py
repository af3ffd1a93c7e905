"""Independent parts side by side, one thread each: small products gain little from several threads of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Part = TypeVar("Part")


def side_by_side(run: Callable[[Part], None], parts: Iterable[Part]) -> None:
    """Call ``run`` on every part, on as many threads as torch may use; inside, torch uses one.

    Args:
        run: must not depend on the order of the parts.
        parts: taken as they are needed. A part that fails ends the others that have not begun, and its error is raised.
    """
    todo, threads = list(parts), torch.get_num_threads()
    if threads < 2 or len(todo) < 2:
        for part in todo:
            run(part)
        return
    with ThreadPoolExecutor(min(threads, len(todo)), initializer=lambda: torch.set_num_threads(1)) as pool:
        futures = [pool.submit(run, part) for part in todo]
        try:
            for future in futures:
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)  # the threads of the pool have set it for all that start later
