"""Names of the kinds of objects that wait in queues. Those of other projects are named by their documents only."""

from typing import Final, NewType

#: The kind of an object, in lower case.
KindName = NewType("KindName", str)

#: batch.volcano.sh/v1alpha1 Job: no pods exist while it waits; Muster creates them.
VOLCANO_JOB: Final = KindName("vcjob")
#: batch/v1 Job: suspended while it waits.
JOB: Final = KindName("job")
#: scheduling.volcano.sh/v1beta1 PodGroup with the pods that name it: gated while they wait.
POD_GROUP: Final = KindName("podgroup")
#: A pod without a group: gated while it waits.
POD: Final = KindName("pod")

#: Kinds that no document describes.
BUILT_IN: Final = frozenset((VOLCANO_JOB, JOB, POD_GROUP, POD))

#: Of these kinds some pods can be removed while the others run on. An object that is suspended to lose its pods loses
#: all of them: its controller counts each one that is removed otherwise as failed.
CAN_SHRINK: Final = frozenset((VOLCANO_JOB, POD_GROUP))
