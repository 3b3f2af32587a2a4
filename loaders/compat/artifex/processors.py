"""What all modalities are: something that makes data ready, and results plain again.

class Own(BaseProcessor):           process is enough
Own(config).preprocess(data)        what process returns
Own(config).postprocess(data)       the same data
"""

from __future__ import annotations

from typing import Any


class BaseProcessor:
    """Makes data ready by a config."""

    def __init__(self, config: Any = None, *, rngs: Any = None) -> None:
        self.config, self.rngs = config, rngs

    def process(self, *data: Any, **options: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no process")

    def preprocess(self, *data: Any, **options: Any) -> Any:
        return self.process(*data, **options)

    def postprocess(self, *data: Any, **options: Any) -> Any:
        return data[0]
