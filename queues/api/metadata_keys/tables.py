"""Every label and annotation that Muster reads, writes or reports, and the page that lists them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from queues.api.metadata_keys.kai_keys import KAI_KEYS
from queues.api.metadata_keys.known_key import ANNOTATION, LABEL, KeyUse, KnownKey
from queues.api.metadata_keys.kueue_keys import KUEUE_KEYS
from queues.api.metadata_keys.muster_keys import MUSTER_KEYS
from queues.api.metadata_keys.volcano_keys import VOLCANO_KEYS

#: By key. Keys that end in ``*`` are in ``known_key`` only.
KNOWN_KEYS: Final[Mapping[str, KnownKey]] = {
    row.key: row for row in (*MUSTER_KEYS, *VOLCANO_KEYS, *KUEUE_KEYS, *KAI_KEYS)
}
_PREFIXES: Final = tuple(row for row in KNOWN_KEYS.values() if row.key.endswith("*"))

_HEAD: Final = """# Annotations and labels

<!-- Written by `python -m deploy.reference_pages` from queues/api/metadata_keys; do not edit. -->

Every annotation and label of Muster, Volcano, Kueue and KAI, and what Muster does with it. `muster check` tells where
one stands that has no effect, and of names of `muster.dev`, `volcano.sh` and `scheduling.volcano.sh` that are in none
of these tables. [Names](names.md) has examples, and more about those that are read.
"""


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
    for title, rows in (
        ("Muster", MUSTER_KEYS),
        ("Volcano", VOLCANO_KEYS),
        ("Kueue", KUEUE_KEYS),
        ("KAI", KAI_KEYS),
    ):
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
        yield f"| `{row.key}` | {row.use.value} | {_places(row)} | {row.meaning} |\n"


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
