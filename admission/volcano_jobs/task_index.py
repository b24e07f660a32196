"""The index of a pod in its task, as text for the manifest of the pod."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexPlaceholder:
    """Stands for the index of any pod, in a manifest that many pods are made from.

    ``fence`` occurs in no other text.
    """

    fence: str

    def __str__(self) -> str:
        return self.plus(0)

    def plus(self, count: int) -> str:
        """A text that is replaced by the index plus so much."""
        return f"{self.fence}{count}{self.fence}"
