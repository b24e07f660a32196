"""Sets by key. A key without members is not there."""

from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

Key = TypeVar("Key")
Member = TypeVar("Member")


class Index(Generic[Key, Member]):
    """Which members belong under a key; a member may belong under several."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: dict[Key, set[Member]] = {}

    def add(self, key: Key, member: Member) -> None:
        """The member belongs under the key."""
        self._members.setdefault(key, set()).add(member)

    def discard(self, key: Key, member: Member) -> None:
        """It does not (any more)."""
        members = self._members.get(key)
        if members is not None:
            members.discard(member)
            if not members:
                del self._members[key]

    def pop(self, key: Key) -> AbstractSet[Member]:
        """Forget a key; what was under it."""
        return self._members.pop(key, frozenset())

    def of(self, key: Key) -> AbstractSet[Member]:
        """What is under a key now. It changes with the index: copy what outlives the next change."""
        return self._members.get(key, frozenset())

    def __contains__(self, key: object) -> bool:
        return key in self._members
