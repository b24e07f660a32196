"""Every kind of workload is complete: whoever adds one is told by these tests what else it needs."""

from pathlib import Path

import pytest

from admission.kube.install.rbac import CONTROLLER
from admission.kube.policies.policy_documents import PolicyOptions, mutating_policies, validating_policies
from admission.kube.watch.informers import Informers
from admission.wire import WireMetadata, WireOwnerReference
from admission.workloads.kinds import Holding, KindSupport, controller_of, known_kinds, object_ref, support_of
from queues import kind_names
from queues.workload import WorkloadKey
from tests.fakes.fake_watch import KINDS as WATCHED_BY_THE_LAWS

ROOT = Path(__file__).parents[5]

OPTIONS = PolicyOptions(identity="system:serviceaccount:muster:muster")

each_kind = pytest.mark.parametrize("support", known_kinds().supports, ids=lambda support: str(support.kind))


def group_of(support: KindSupport) -> str:
    return support.resource.api_version.rpartition("/")[0]


def has_right(group: str, resource: str, verb: str) -> bool:
    return any(
        group in each["apiGroups"] and resource in each["resources"] and verb in each["verbs"]
        for each in (rule.document() for rule in CONTROLLER)
    )


def test_every_kind_is_described_once() -> None:
    assert len({support.kind for support in known_kinds().supports}) == len(known_kinds().supports)
    assert all(support_of(WorkloadKey(support.kind, "u")) is support for support in known_kinds().supports)


@each_kind
def test_its_objects_are_watched(support: KindSupport) -> None:
    informers = Informers(None)  # type: ignore[arg-type]
    watched = [informer.kind.resource for informer in informers.by_name.values()]
    assert support.resource in watched
    # Pods that operators make come up gated, as those of groups do: the laws need no operators.
    by_laws = not (support.kind == kind_names.POD or support.holding is Holding.SUSPENDED_AND_GATED)
    assert support.kind in {each.workload_kind for each in WATCHED_BY_THE_LAWS.values()} or not by_laws


@each_kind
def test_muster_may_do_with_it_what_it_has_to(support: KindSupport) -> None:
    group, plural = group_of(support), support.resource.plural
    needed = {(group, plural, "list"), (group, plural, "watch"), (group, f"{plural}/status", "patch")}
    needed |= {
        Holding.NO_PODS: {("", "pods", "create"), ("", "pods", "delete")},
        Holding.SUSPENDED: {(group, plural, "patch")},
        Holding.GATED: {("", "pods", "patch"), ("", "pods", "delete")},
        Holding.SUSPENDED_AND_GATED: {
            (group, plural, "patch"),
            (group, plural, "get"),
            ("", "pods", "patch"),
        },
    }[support.holding]
    assert {each for each in needed if not has_right(*each)} == set()


@each_kind
def test_it_waits_and_is_signed_at_creation_and_is_guarded_later(support: KindSupport) -> None:
    for documents in (mutating_policies(OPTIONS), validating_policies(OPTIONS)):
        assert any(
            group_of(support) in rule["apiGroups"] and support.resource.plural in rule["resources"]
            for document in documents
            for rule in document["spec"].get("matchConstraints", {}).get("resourceRules", ())
        )


@each_kind
def test_its_pods_are_known_by_their_controller_or_name_it(support: KindSupport) -> None:
    reference = WireOwnerReference(
        kind=support.resource.kind, api_version=support.resource.api_version, uid="u", controller=True
    )
    by_operator = support.holding is Holding.SUSPENDED_AND_GATED
    said = {"muster.dev/member-of": f"{support.kind}/train/u/workers"} if by_operator else {}
    waits = {"muster.dev/released": "false"}
    found = controller_of(WireMetadata(annotations=said, labels=waits, owner_references=(reference,)))
    controls = not (support.is_group or support.kind == kind_names.POD)
    assert (found and found.key) == (WorkloadKey(support.kind, "u") if controls else None)


@each_kind
def test_it_is_told_where_it_is(support: KindSupport) -> None:
    ref = object_ref(WorkloadKey(support.kind, "u"), "team", "train")
    assert ref.path == support.resource.path("team", "train")


@each_kind
def test_it_is_documented(support: KindSupport) -> None:
    rows = [
        line.split("|")[1:-1]
        for line in (ROOT / "docs/reference/names.md").read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| `{support.kind}` |")
    ]
    assert len(rows) == 1
    _, described, waiting, *_ = rows[0]
    assert f"`{support.resource.api_version}` {support.resource.kind}" in described
    words = {Holding.NO_PODS: "no pods", Holding.GATED: "gated"}
    assert waiting.strip() == words.get(support.holding, "suspended")
