"""The index of a pod in its task, as text for the manifest of the pod."""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class IndexPlaceholder:
    """Stands for the index of any pod, in a manifest that many pods are made from.

    ``fence`` occurs in no other text.
    """

    fence: str

    def __str__(self) -> str:
        return self.plus(0)

    def plus(self, count: int) -> str:
        """A text that ``IndexFormat`` replaces by the index plus so much."""
        return f"{self.fence}{count}{self.fence}"


class IndexFormat:
    """The placeholders in one text."""

    __slots__ = ("_counts", "text")

    def __init__(self, text: bytes, placeholder: IndexPlaceholder) -> None:
        """``text``: as for the operator ``%``."""
        fence = re.escape(placeholder.fence.encode())
        pattern = re.compile(fence + rb"(\d+)" + fence)
        self._counts: Final = {b"index+" + match[1]: int(match[1]) for match in pattern.finditer(text)}
        #: With ``%(index+N)b`` for each.
        self.text: Final = pattern.sub(rb"%(index+\1)b", text)

    def values(self, index: int) -> dict[bytes, bytes]:
        """What is to be put in for a pod."""
        return {name: b"%d" % (index + count) for name, count in self._counts.items()}
