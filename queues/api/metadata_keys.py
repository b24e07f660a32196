"""Every label and annotation that Muster reads, writes or reports. The table itself is ``metadata_keys.toml``."""

from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files
from typing import Final, Literal

import msgspec

#: Places of objects' metadata. ``pod template``: of whatever object.
JOB, VOLCANO_JOB, POD_GROUP, POD = "Job", "Volcano Job", "PodGroup", "Pod"
TEMPLATE, QUEUE = "pod template", "Queue"
#: Deployments and their like; jobs of JobSet, Kubeflow, Ray and Spark.
POD_OWNER, OPERATOR_JOB = "owner of pods", "operator's job"
#: Fields of the metadata.
LABEL, ANNOTATION = "labels", "annotations"


class KeyUse(StrEnum):
    """What Muster does with a label or annotation of an object."""

    #: Honoured, where ``places`` says.
    READ = "read"
    #: Only Muster writes it: policies refuse it from all other users.
    OWN = "own"
    #: Written by Muster for other programs and people; no policy protects it.
    WRITTEN = "written"
    #: Honoured in namespaces with the label ``muster.dev/kueue-names``. ``muster check`` reports it in others.
    TRANSLATED = "translated"
    #: No effect. ``muster check`` says so.
    WITHOUT_EFFECT = "without effect"


class KnownKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One label or annotation, or (a key that ends in ``*``) all that begin so."""

    key: str
    use: KeyUse
    #: What it means, or (without effect) what its writer wants.
    meaning: str
    #: Places where it is honoured or written, by the fields of the metadata there: ``labels``, ``annotations``, or one
    #: of both. Empty: wherever it is.
    places: dict[Literal["labels", "annotations", "annotations or labels"], tuple[str, ...]] = {}
    #: What to write instead where it has no effect; "": nothing does the same.
    instead: str = ""

    def all_places(self) -> dict[str, tuple[str, ...]]:
        """Places, with the fields of the metadata there."""
        return {
            place: tuple(fields.split(" or ")) for fields, names in self.places.items() for place in names
        }


#: Keys by whose they are.
TABLES: Final = msgspec.toml.decode(
    files(__package__).joinpath("metadata_keys.toml").read_bytes(), type=dict[str, tuple[KnownKey, ...]]
)
#: By key. Keys that end in ``*`` are in ``known_key`` only.
KNOWN_KEYS: Final[Mapping[str, KnownKey]] = {row.key: row for rows in TABLES.values() for row in rows}
_PREFIXES: Final = tuple(row for row in KNOWN_KEYS.values() if row.key.endswith("*"))


def known_key(key: str) -> KnownKey | None:
    """The row of a label or annotation; None if it is in no table."""
    row = KNOWN_KEYS.get(key)
    return row or next((each for each in _PREFIXES if key.startswith(each.key[:-1])), None)
