"""SSH key pairs for Jobs, made ahead of time: one takes about 50 ms of a processor."""

import asyncio
from collections import deque
from typing import NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


class KeyPair(NamedTuple):
    """PKCS#1 PEM, and one line of ``authorized_keys``."""

    private: str
    public: str


def new_key_pair() -> KeyPair:
    """RSA, 2048 bits, as Volcano's ssh plugin makes them. Blocks."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode() + "\n")


class KeyPairs:
    """Hands out key pairs, each once. From the first request on a few are kept ready."""

    def __init__(self, *, ready: int = 2) -> None:
        self._ready = ready
        self._pairs: deque[KeyPair] = deque()
        self._making: asyncio.Task[None] | None = None

    async def take(self) -> KeyPair:
        """A key pair that nobody else has."""
        pair = self._pairs.popleft() if self._pairs else await asyncio.to_thread(new_key_pair)
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make(), name="make key pairs")
        return pair

    async def _make(self) -> None:
        while len(self._pairs) < self._ready:
            self._pairs.append(await asyncio.to_thread(new_key_pair))

    async def stop(self) -> None:
        """Make no more."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)
