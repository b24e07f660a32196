"""What users are warned of when they write an owner of pods that is no Job. Pure."""

from admission.kube.policies.cel import annotation, label
from admission.kube.policies.guards.rules import guard, rule, shown
from admission.kube.policies.mutating import PolicyOptions
from admission.kube.policies.owners import GANG_OWNERS, TEMPLATE, is_gang, is_uncontrolled, minimum_of
from queues.api.api_resources import Document
from queues.api.names import GROUP_ANNOTATION, GROUP_ANNOTATION_VOLCANO, GROUP_MIN_MEMBER, QUEUE_LABEL


def owner_guards(options: PolicyOptions) -> list[Document]:
    """A policy with its binding, which warns: pods that run already become no gang.

    ``admission.kube.policies.owners`` leaves the annotation of such an owner alone.
    """
    now, before = minimum_of("object", f"object.{TEMPLATE}"), minimum_of("oldObject", f"oldObject.{TEMPLATE}")
    in_no_group = " && ".join(
        f"{annotation(key, f'object.{TEMPLATE}')} == ''"
        for key in (GROUP_ANNOTATION, GROUP_ANNOTATION_VOLCANO)
    )
    asked_now = f"({now} != {before} || {label(QUEUE_LABEL)} != {label(QUEUE_LABEL, 'oldObject')})"
    return guard(
        "muster-warn-owners",
        [kind.rule(["UPDATE"]) for kind in GANG_OWNERS],
        [
            rule(
                f"!{is_gang(now)} || !({in_no_group}) || !{asked_now}",
                f"'Annotation {GROUP_MIN_MEMBER}: found ' + {shown(now)} + ' on an owner with pods, expected it from"
                f" the creation on: new pods would wait for one another, and the others for them, so each starts alone."
                f" To make them one gang, scale it to 0 and write the annotation then; a StatefulSet also needs"
                f" podManagementPolicy Parallel.'",
            )
        ],
        options,
        concerns=is_uncontrolled(),
        action="Warn",
    )
