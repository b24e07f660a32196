"""Every metric of a replica, for the code that shows it and for the page of reference."""

from typing import Final

from admission.figures.metric import Kind, Metric

LEADERSHIP: Final = (
    Metric(
        "muster_leader",
        Kind.GAUGE,
        "1 if this replica leads, else 0.",
        series="1",
        meaning=(
            "The sum over replicas is 1; 0, or no series at all, for longer than 30 seconds is worth "
            "an alarm (a takeover takes up to 10 seconds by default)"
        ),
    ),
    Metric(
        "muster_term",
        Kind.GAUGE,
        "Term this replica leads in; 0 if it does not.",
        series="1",
    ),
    Metric(
        "muster_turns_total",
        Kind.COUNTER,
        "Turns of this replica.",
        series="1",
        meaning="Including turns in which there was nothing to decide",
    ),
    Metric(
        "muster_turn_age_seconds",
        Kind.GAUGE,
        "Seconds since the last turn of this replica ended; absent if it does not lead.",
        series="1",
        meaning="A turn comes at least every `turnAtLeastEverySeconds`. Of the leader",
    ),
    Metric(
        "muster_turn_phase_seconds",
        Kind.HISTOGRAM,
        "Time a turn spends in a phase, in seconds.",
        labels=("phase",),
        values="freeze, decide, apply",
        series="3 × 16",
    ),
    Metric(
        "muster_decisions_total",
        Kind.COUNTER,
        "Decisions of this replica that the ledger took (drop: refused).",
        labels=("what",),
        series="5",
        meaning=(
            "`admit`, `adopt`, `evict`: admissions; `free`: seats given back; `drop`: gangs that the "
            "ledger refused (tried again in the next turn; a steady rate is a fault)"
        ),
    ),
    Metric(
        "muster_decisions_failed_total",
        Kind.COUNTER,
        "Attempts of this replica to decide a turn that raised an error.",
        series="1",
        meaning="A defect of Muster, with its place in the log",
    ),
    Metric(
        "muster_terms_ended_total",
        Kind.COUNTER,
        "Terms of this replica that an error ended, by the error's name.",
        labels=("error",),
        series="kinds of errors, about 30",
        meaning="A steady rate is worth an alarm",
    ),
    Metric(
        "muster_turns_put_off_total",
        Kind.COUNTER,
        "Turns that were put off because Postgres could not serve them.",
        series="1",
        meaning="Tried again after a pause",
    ),
    Metric(
        "muster_loop_block_seconds",
        Kind.GAUGE,
        "Longest time in the last 5 minutes for which the event loop stood still, in seconds.",
        series="1",
        meaning="Above 0.1 the log (level `debug`, from 1 second on `warning`) says where",
    ),
    Metric(
        "muster_workloads_set_aside",
        Kind.GAUGE,
        "Workloads set aside because a step of the turn fails on them.",
        series="1",
        meaning=(
            "Intake, a decision or the ledger fails on them, and their reason is `Defect`; tried "
            "again when they change, and after 10 minutes"
        ),
    ),
    Metric(
        "muster_jobs_unlisted",
        Kind.GAUGE,
        "Jobs of which the pods are to be listed before their seats are given back.",
        series="1",
        meaning=(
            "These Jobs are gone or evicted, and the API server has not listed their pods yet, or the "
            "watch has not told of all of them; their seats are [kept until "
            "then](../how-to/troubleshoot.md#the-room-of-a-deleted-job-stays-taken). Above 0 for "
            "minutes is worth an alarm. Of the leader"
        ),
    ),
)
SERVERS: Final = (
    Metric(
        "muster_serving_process_up",
        Kind.GAUGE,
        "1 if this process beside the leader serves, else 0.",
        labels=("role",),
        values="read, webhook",
        series="2",
        meaning=(
            "`read`: the read API; `webhook`: the admission webhook, which refuses mistakes at once, "
            "and without which tenants' administrators cannot change their Queues"
        ),
    ),
    Metric(
        "muster_certificate_expiry_timestamp_seconds",
        Kind.GAUGE,
        "Second since the epoch at which a certificate ends that this replica serves with.",
        labels=("role", "certificate"),
        values="read, webhook; serving, authority",
        series="4",
        meaning=(
            "Renewed when two thirds of its life are over, by Muster or by cert-manager; so less than a "
            "fifth of its life left means that this fails"
        ),
    ),
    Metric(
        "muster_certificate_lifetime_seconds",
        Kind.GAUGE,
        "Seconds from the beginning to the end of a certificate that this replica serves with.",
        labels=("role", "certificate"),
        values="read, webhook; serving, authority",
        series="4",
    ),
    Metric(
        "muster_transaction_seconds",
        Kind.HISTOGRAM,
        "Time of a transaction of the leading process, in seconds, by its outcome.",
        labels=("outcome",),
        values="committed, refused, stopped, unavailable",
        series="4 × 16",
        meaning=(
            "`unavailable`: Postgres could not be reached, or did not get it done; `refused`: it "
            "refused a value, a row or a statement; `stopped`: Muster itself ended it, as when its "
            "lease is over"
        ),
    ),
    Metric(
        "muster_retention_lag_seconds",
        Kind.GAUGE,
        "Seconds for which the oldest rows of a history have outlived their retention.",
        labels=("history",),
        values="postings, decisions, ended_workloads, closed_admissions",
        series="4",
        meaning=(
            "Beyond the week in which they are dropped together "
            "([retention](../how-to/operate.md#history)); 0 if nothing is overdue. Of the leader"
        ),
    ),
    Metric(
        "muster_api_requests_total",
        Kind.COUNTER,
        "Requests to the API server by verb and status code.",
        labels=("verb", "code"),
        series="verbs × codes, about 60",
    ),
    Metric(
        "muster_api_writes_total",
        Kind.COUNTER,
        "Writes to the API server by resource and outcome.",
        labels=("resource", "outcome"),
        values="ok, conflict, throttled, refused, unavailable",
        series="5 × resources, about 100",
        meaning=(
            "`conflict`: another writer was first; `throttled`: 429; `refused`: another status from "
            "400 on; `unavailable`: no answer, or from 500 on"
        ),
    ),
    Metric(
        "muster_api_retries_total",
        Kind.COUNTER,
        "Requests to the API server that were sent again.",
        labels=("resource",),
        series="resources, about 30",
        meaning="After a pause, because the server was busy or could not be reached",
    ),
    Metric(
        "muster_dry_run_seconds",
        Kind.HISTOGRAM,
        "Time the API server takes for a dry run of a pod template, in seconds, by its outcome.",
        labels=("outcome",),
        values="accepted, refused, unanswered",
        series="3 × 16",
        meaning=(
            "Their number is `muster_dry_run_seconds_count`. `refused`: the API server would not make "
            "such pods, and their workloads wait with `TemplateRefused`; `unanswered`: it did not "
            "tell, and their workloads are decided on as they are written. Of the leader, while "
            "`dryRuns` is on"
        ),
    ),
    Metric(
        "muster_informer_silent_seconds",
        Kind.GAUGE,
        "Seconds since the API server was last heard.",
        labels=("kind",),
        series="informers, about 30",
        meaning="An event or a bookmark of a watch counts",
    ),
    Metric(
        "muster_informer_lists_total",
        Kind.COUNTER,
        "Full lists of an informer, the first one included.",
        labels=("kind",),
        series="informers, about 30",
        meaning="More than one means that watches broke",
    ),
    Metric(
        "muster_informer_objects",
        Kind.GAUGE,
        "Objects an informer knows.",
        labels=("kind",),
        series="informers, about 30",
    ),
    Metric(
        "muster_informer_unreadable",
        Kind.GAUGE,
        "Objects that cannot be read as they are now.",
        labels=("kind",),
        series="informers, about 30",
        meaning="The log names each once, and what runs of them is counted",
    ),
)
QUEUES: Final = (
    Metric(
        "muster_queue_used",
        Kind.GAUGE,
        "Use of a queue's subtree, in units of the resource.",
        labels=("queue", "flavor", "resource"),
        series="queues × resources × (1 + flavors)",
    ),
    Metric(
        "muster_queue_deserved",
        Kind.GAUGE,
        "What a queue deserves, in units of the resource.",
        labels=("queue", "flavor", "resource"),
        series="queues × resources × (1 + flavors)",
        meaning="Written in the queue, or computed from weights",
    ),
    Metric(
        "muster_queue_guarantee",
        Kind.GAUGE,
        "What is kept free for a queue, in units of the resource.",
        labels=("queue", "flavor", "resource"),
        series="queues × resources × (1 + flavors)",
        meaning="Only where a queue or a queue below it states one",
    ),
    Metric(
        "muster_queue_capability",
        Kind.GAUGE,
        "The most that a queue may use, in units of the resource.",
        labels=("queue", "flavor", "resource"),
        series="queues × resources × (1 + flavors)",
        meaning="Only where the queue states one; of `root` what usable nodes can allocate",
    ),
    Metric(
        "muster_queue_borrowed",
        Kind.GAUGE,
        "Use of a queue above what it deserves, in units of the resource.",
        labels=("queue", "flavor", "resource"),
        series="queues × resources × (1 + flavors)",
        meaning="Only where it is above 0",
    ),
    Metric(
        "muster_queue_lent",
        Kind.GAUGE,
        "What a queue deserves and its siblings use, in units of the resource.",
        labels=("queue", "flavor", "resource"),
        series="queues × resources × (1 + flavors)",
        meaning=(
            "What siblings borrow is lent by those that leave something idle, in proportion to that. "
            "Only where it is above 0"
        ),
    ),
    Metric(
        "muster_queue_past_use",
        Kind.GAUGE,
        "Decayed average of the use of a queue's subtree, in units of the resource.",
        labels=("queue", "flavor", "resource"),
        series="queues × resources × (1 + flavors)",
        meaning=(
            "At the last turn, of queues in which [past use](../how-to/queues-and-quotas.md#past-use) counts"
        ),
    ),
    Metric(
        "muster_queue_share_ratio",
        Kind.GAUGE,
        "Largest part of what a queue deserves that it uses, over its resources.",
        labels=("queue",),
        series="queues",
        meaning="The dominant share: 1 is its fair share. Of queues that can hold workloads",
    ),
    Metric(
        "muster_fairness_deviation_ratio",
        Kind.GAUGE,
        "Largest deviation of a dominant share from the fair share, while a queue below it waits.",
        labels=("direction",),
        values="below, above",
        series="2",
        meaning=(
            "`below`: of the queue with pending workloads that is farthest below 1; `above`: of the "
            "queue that is farthest above 1 meanwhile, else 0"
        ),
    ),
    Metric(
        "muster_queue_device_seconds_total",
        Kind.COUNTER,
        "Device-seconds that a queue used, by whether it deserves or borrows them.",
        labels=("queue", "resource", "kind"),
        values="owned, borrowed",
        series="queues × 2 × kinds of devices",
        meaning=(
            "Of queues that can hold workloads. Work that was lost is "
            "`muster_lost_device_seconds_total`, what was admitted and idle "
            "`muster_gpu_admitted_idle_seconds_total` of the agents"
        ),
    ),
)
WORKLOADS: Final = (
    Metric(
        "muster_workloads_pending",
        Kind.GAUGE,
        "Waiting workloads by queue and reason.",
        labels=("queue", "reason"),
        series="queues × reasons that they have",
        meaning="See [reasons](reasons.md)",
    ),
    Metric(
        "muster_queue_longest_wait_seconds",
        Kind.GAUGE,
        "Time that the pending workload which waits longest has waited, in seconds.",
        labels=("queue",),
        series="queues",
        meaning="Of workloads that could be tried: nothing is wrong with them or their queue",
    ),
    Metric(
        "muster_gangs_starving",
        Kind.GAUGE,
        "Gangs within what their queue deserves that have waited longer than starvation.clearAfter.",
        labels=("queue",),
        series="queues",
        meaning=(
            "Muster [clears a place](../explanation/preemption.md) for such a gang; so a gang that "
            "stays here is worth a look. Only where it is above 0"
        ),
    ),
    Metric(
        "muster_gang_wait_seconds",
        Kind.HISTOGRAM,
        "Time from the creation of a gang to its admission, in seconds, by its number of devices.",
        labels=("queue", "size"),
        values="0, 1, 2-7, 8, 9-64, 65-512, 513+",
        series="11 × queues × 7, of at most 5,000 pairs",
        meaning="Sizes are classes of devices over all pods of the gang",
    ),
    Metric(
        "muster_gang_stage_seconds",
        Kind.HISTOGRAM,
        "Time a gang spends in a stage on its way to running, in seconds.",
        labels=("stage",),
        series="4 × 20",
        meaning=(
            "`created_to_admitted` (creation times have a resolution of one second), "
            "`admitted_to_released` (its last pod was handed to the stock scheduler), "
            "`admitted_to_bound` (last pod bound), `admitted_to_ready` (its pods are ready together)"
        ),
    ),
    Metric(
        "muster_evictions_total",
        Kind.COUNTER,
        "Admissions that were evicted, by reason.",
        labels=("reason",),
        series="reasons, about 30",
        meaning=(
            "[Reasons](reasons.md#why-an-admission-was-evicted) name the rule, such as `Preempted`, "
            "`Reclaimed` or `Cleared`"
        ),
    ),
    Metric(
        "muster_lost_device_seconds_total",
        Kind.COUNTER,
        "Device-seconds of work that evictions cost, by reason.",
        labels=("reason",),
        series="reasons, about 30",
        meaning=(
            "Devices times seconds since the start of the work or its last checkpoint "
            '(`muster.dev/checkpoint-interval`); with `reason="GpuUnhealthy"` what faults of devices '
            "have cost"
        ),
    ),
)
NODES: Final = (
    Metric(
        "muster_nodes_usable",
        Kind.GAUGE,
        "Nodes that admissions may use.",
        series="1",
    ),
    Metric(
        "muster_device_seconds_total",
        Kind.COUNTER,
        "Device-seconds of usable nodes, by whether an admission had them.",
        labels=("resource", "state"),
        values="used, idle",
        series="2 × kinds of devices",
    ),
    Metric(
        "muster_devices_free",
        Kind.GAUGE,
        "Devices of usable nodes that nothing has.",
        labels=("resource",),
        series="kinds of devices",
    ),
    Metric(
        "muster_devices_unusable",
        Kind.GAUGE,
        "Devices of nodes that take no new pods, by the reason.",
        labels=("resource", "why"),
        series="kinds of devices × reasons, about 4",
    ),
    Metric(
        "muster_devices_fragmented",
        Kind.GAUGE,
        "Free devices that no typical pod could use.",
        series="1",
        meaning=(
            "The FGD measure: a free part of a device that is smaller than what a typical pod needs, "
            "or free devices of a node on which it cannot run, weighted by how often such pods are "
            "asked for. 0: no pod has asked for devices yet"
        ),
    ),
    Metric(
        "muster_largest_gang_pods",
        Kind.GAUGE,
        "Pods of the largest gang that fits now, as far as devices decide.",
        labels=("resource", "level", "pods"),
        values="device, node",
        series="2 × kinds of devices × levels",
        meaning=(
            "`level`: the topology level of which one domain must have room, or `cluster`. "
            '`pods="device"`: pods with one device each; `pods="node"`: pods with all devices of a '
            "node. CPU, memory, taints and quota may allow less"
        ),
    ),
    Metric(
        "muster_devices_faulty",
        Kind.GAUGE,
        "Unhealthy devices, by what is wrong.",
        labels=("reason",),
        series="reasons, about 30",
        meaning="[Health](health.md) has the reasons. This and `muster_node_*` are of the leader",
    ),
    Metric(
        "muster_nodes_faulty",
        Kind.GAUGE,
        "Nodes with unhealthy devices.",
        series="1",
    ),
    Metric(
        "muster_node_faults_total",
        Kind.COUNTER,
        "Nodes that became faulty.",
        series="1",
    ),
    Metric(
        "muster_node_repairs_total",
        Kind.COUNTER,
        "Nodes that came back without a fault.",
        series="1",
    ),
    Metric(
        "muster_node_repair_seconds_total",
        Kind.COUNTER,
        "Seconds from fault to return, over all repairs.",
        series="1",
        meaning="Divided by the repairs, the mean time to repair",
    ),
    Metric(
        "muster_node_healthy_seconds_total",
        Kind.COUNTER,
        "Seconds without a fault, over all nodes.",
        series="1",
        meaning="Divided by the faults, the mean time between failures of a node",
    ),
    Metric(
        "muster_node_recovery_attempts_total",
        Kind.COUNTER,
        "Recoveries that were begun.",
        series="1",
        meaning="See [recovery](../how-to/gpu-recovery.md)",
    ),
    Metric(
        "muster_node_recoveries_failed_total",
        Kind.COUNTER,
        "Recoveries that were given up.",
        series="1",
        meaning="These nodes need a person",
    ),
)
CONTROLLER: Final = (*LEADERSHIP, *SERVERS, *QUEUES, *WORKLOADS, *NODES)
BY_NAME: Final = {metric.name: metric for metric in CONTROLLER}
