"""What Muster writes on an object is kept there by a policy, whatever the kind."""

from admission.kube.policies.kept_names import keeping_policies
from admission.kube.policies.mutating import JOB_STARTERS
from admission.workloads.kinds import KINDS
from queues.api.api_resources import TRAIN_JOBS


def test_each_kind_that_muster_writes_on_is_kept_by_one_policy() -> None:
    policies = [
        each
        for each in keeping_policies("muster", "default-scheduler", ["volcano"])
        if "mutations" in each["spec"]
    ]
    kept = [
        (rule["apiGroups"][0], rule["resources"][0])
        for policy in policies
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
    ]
    written = [support.resource for support in KINDS] + [kind for _, kind in JOB_STARTERS] + [TRAIN_JOBS]
    assert sorted(kept) == sorted({(kind.group, kind.plural) for kind in written})
