"""Times of the lease, unless an administrator sets others. A module of its own: settings are read without Postgres."""

from typing import Final

#: Seconds a lease lasts. Lease plus one retry is the longest time without a leader; it must stay below 15 s.
LEASE_SECONDS: Final = 8.0
#: Seconds between two attempts to be elected, or (of the leader) to renew.
RETRY_SECONDS: Final = 2.0
#: Seconds the leader stops trusting its lease before the database does.
MARGIN_SECONDS: Final = 1.0
