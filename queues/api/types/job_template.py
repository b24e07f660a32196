"""Volcano's JobTemplate, flow.volcano.sh/v1alpha1: the spec of a Volcano Job, from which JobFlows make Jobs."""

from typing import Literal

from queues.api.metadata import ObjectMeta
from queues.api.model import Model, Text
from queues.api.names import FLOW_VOLCANO
from queues.api.types.volcano_job import VolcanoJobSpec


class JobTemplateStatus(Model):
    """The Jobs that were made from a JobTemplate and still exist."""

    #: Jobs that were made from it.
    job_depends_on_list: tuple[Text, ...] = ()


class JobTemplate(Model):
    """A JobTemplate."""

    api_version: Literal["flow.volcano.sh/v1alpha1"] = FLOW_VOLCANO
    kind: Literal["JobTemplate"] = "JobTemplate"
    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoJobSpec = VolcanoJobSpec()
    status: JobTemplateStatus = JobTemplateStatus()
