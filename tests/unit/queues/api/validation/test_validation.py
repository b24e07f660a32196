"""Every kind of document has rules, and a plain document breaks none."""

import pytest
import yaml

from queues.api.validation.validation import KINDS, Known, violations_of
from tests.builders.valid_documents import HYPERNODE, JOB, POD_GROUP, QUEUE, TREE, changed, messages


def test_the_plain_documents_are_accepted():
    for text in (JOB, QUEUE, POD_GROUP, HYPERNODE):
        assert messages(yaml.safe_load(text)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_rules(kind):
    version, name = kind
    document = {"apiVersion": version, "kind": name, "metadata": {"name": "a"}, "spec": {}}
    assert isinstance(violations_of(document), list)


def test_an_update_that_leaves_the_spec_alone_is_always_fine():
    broken = changed(QUEUE, ("spec", {"parent": "nobody"}))
    relabelled = changed(QUEUE, ("spec", {"parent": "nobody"}), ("metadata", "finalizers", []))
    assert messages(broken, queues=TREE) != []
    assert violations_of(relabelled, Known(queues=TREE), old=broken) == []
