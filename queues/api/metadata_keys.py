"""Every label and annotation that Muster reads, writes or reports, and the page that lists them.

The table itself is ``metadata_keys.toml``.
"""

from collections.abc import Iterable, Iterator, Mapping
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


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    use: KeyUse
    meaning: str
    #: Places by the fields of the metadata there: ``labels``, ``annotations``, or one of both.
    places: dict[Literal["labels", "annotations", "annotations or labels"], tuple[str, ...]] = {}
    instead: str = ""


class KnownKey(msgspec.Struct, frozen=True, kw_only=True):
    """One label or annotation, or (a key that ends in ``*``) all that begin so."""

    key: str
    use: KeyUse
    #: What it means, or (without effect) what its writer wants.
    meaning: str
    #: Places where it is honoured or written, with the fields of the metadata there. Empty: wherever it is.
    places: Mapping[str, tuple[str, ...]]
    #: What to write instead where it has no effect; "": nothing does the same.
    instead: str


def _known(row: _Row) -> KnownKey:
    places = {place: tuple(fields.split(" or ")) for fields, names in row.places.items() for place in names}
    return KnownKey(key=row.key, use=row.use, meaning=row.meaning, places=places, instead=row.instead)


#: Keys by whose they are.
_TABLES: Final = {
    title: tuple(map(_known, rows))
    for title, rows in msgspec.toml.decode(
        files(__package__).joinpath("metadata_keys.toml").read_bytes(), type=dict[str, tuple[_Row, ...]]
    ).items()
}
#: By key. Keys that end in ``*`` are in ``known_key`` only.
KNOWN_KEYS: Final[Mapping[str, KnownKey]] = {row.key: row for rows in _TABLES.values() for row in rows}
_PREFIXES: Final = tuple(row for row in KNOWN_KEYS.values() if row.key.endswith("*"))

_HEAD: Final = """# Annotations and labels

<!-- Written by `python -m deploy.reference_pages` from queues/api/metadata_keys.toml; do not edit. -->

Every annotation and label of Muster, Volcano, Kueue and KAI, and what Muster does with it. `muster check` tells where
one stands that has no effect, and of names of `muster.dev`, `volcano.sh` and `scheduling.volcano.sh` that are in none
of these tables. [Names](names.md) has examples, and more about those that are read.
"""
#: What the page says of those with an effect.
_USES: Final = {
    KeyUse.READ: "read",
    KeyUse.OWN: "written by Muster only",
    KeyUse.WRITTEN: "written by Muster",
}
_TRANSLATED: Final = """
These count on what is created in namespaces with the label `muster.dev/kueue-names: "true"`
([how to](../how-to/migrate-from-kueue.md#leave-the-jobs-as-they-are)); elsewhere they have no effect.

| name | where | meaning | Muster's name |
|---|---|---|---|
"""


def known_key(key: str) -> KnownKey | None:
    """The row of a label or annotation; None if it is in no table."""
    row = KNOWN_KEYS.get(key)
    return row or next((each for each in _PREFIXES if key.startswith(each.key[:-1])), None)


def reference_page() -> str:
    """``docs/reference/annotations.md``."""
    parts = [_HEAD]
    for title, rows in _TABLES.items():
        parts.append(f"\n## {title}\n")
        with_effect = [row for row in rows if row.use is not KeyUse.WITHOUT_EFFECT]
        without = [row for row in rows if row.use is KeyUse.WITHOUT_EFFECT]
        translated = [row for row in rows if row.use is KeyUse.TRANSLATED]
        with_effect = [row for row in with_effect if row.use is not KeyUse.TRANSLATED]
        if with_effect:
            parts += ["\n| name | Muster | where | meaning |\n|---|---|---|---|\n", *_rows(with_effect)]
        if translated:
            parts += [_TRANSLATED, *_rows_translated(translated)]
        if without:
            parts += ["\n| without effect | wants | instead |\n|---|---|---|\n", *_rows_without(without)]
    return "".join(parts)


def _rows(rows: Iterable[KnownKey]) -> Iterator[str]:
    for row in rows:
        yield f"| `{row.key}` | {_USES[row.use]} | {_places(row)} | {row.meaning} |\n"


def _rows_translated(rows: Iterable[KnownKey]) -> Iterator[str]:
    for row in rows:
        yield f"| `{row.key}` | {_places(row)} | {row.meaning} | {row.instead} |\n"


def _rows_without(rows: Iterable[KnownKey]) -> Iterator[str]:
    for row in rows:
        yield f"| `{row.key}` | {row.meaning} | {row.instead or 'nothing does the same'} |\n"


def _places(row: KnownKey) -> str:
    """``annotation: Job, Pod; label: Pod``: by field, in the order of the places."""
    words = {ANNOTATION: "annotation", LABEL: "label"}
    by_fields: dict[tuple[str, ...], list[str]] = {}
    for place, fields in row.places.items():
        by_fields.setdefault(fields, []).append(place)
    return "; ".join(
        f"{' or '.join(words[field] for field in fields)}: {', '.join(names)}"
        for fields, names in by_fields.items()
    )
