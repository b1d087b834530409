"""Classes of results whose parts have names."""
from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any


def named_tuple(name: str, fields: Sequence[str]) -> type:
    """A named tuple that is asked by name as well, as the dict or model output that it stands for: r.logits is
    r["logits"], and r["class"] what has no attribute."""
    base = collections.namedtuple(name, fields, rename=True)  # type: ignore[misc]
    places = {field: place for place, field in enumerate(fields)}

    def item(self: Any, key: Any) -> Any:
        return tuple.__getitem__(self, places[key] if isinstance(key, str) else key)

    return type(name, (base,), {"__slots__": (), "__getitem__": item})
