"""The dashboards of ``deploy/chart/monitoring/dashboards``.

    python -m deploy.monitoring.dashboards    # write them anew

A test compares them, and asks a real Prometheus each of their queries.
"""

import json
from pathlib import Path
from typing import Final

from deploy.monitoring.panels import Dashboard, Panel, Query, Variable, graph, quantiles, stat

FOLDER: Final = Path(__file__).parents[1] / "chart/monitoring/dashboards"
#: Whole devices, of all flavors together.
_DEVICES: Final = 'flavor="",resource=~"$resource"'
_RESOURCE: Final = Variable(name="resource", metric="muster_devices_free", label="resource")
_QUEUE: Final = Variable(name="queue", metric="muster_queue_deserved", label="queue", several=False)
#: Queues that hold workloads, without those above them, whose use is the sum.
_LEAVES: Final = "and on (queue) muster_queue_share_ratio"
_ALL: Final = (0.5, 0.9, 0.99)

PLATFORM: Final = Dashboard(
    uid="muster-platform",
    title="Muster / Platform",
    description="Use of devices and quota, what waits and why, fairness and fragmentation.",
    variables=(_RESOURCE,),
    panels=(
        stat(
            "Devices in use",
            'muster:devices_used:ratio{resource=~"$resource"}',
            "Part of the devices of usable nodes that admissions have.",
            unit="percentunit",
        ),
        stat(
            "Devices free",
            'sum by (resource) (muster_devices_free{resource=~"$resource"})',
            "On usable nodes.",
        ),
        stat("Pending workloads", "sum(muster_workloads_pending) or vector(0)", "In all queues."),
        stat(
            "Starving gangs",
            "sum(muster_gangs_starving) or vector(0)",
            "Within what their queue deserves, and waiting for longer than starvation.clearAfter.",
        ),
        stat("Unhealthy devices", "sum(muster_devices_faulty) or vector(0)", "As node agents report them."),
        stat(
            "Budget left",
            "1 - muster:admission_unavailable:ratio_30d / 0.001",
            "Of the error budget of admission, over 30 days.",
            unit="percentunit",
        ),
        graph(
            "Devices by queue",
            "Queues that hold workloads; stacked, so the top is all that is used.",
            (f"sum by (queue) (muster_queue_used{{{_DEVICES}}}) {_LEAVES}", "{{queue}}"),
            stacked=True,
        ),
        graph(
            "Use of what is deserved",
            "Above 1 a queue borrows.",
            ('muster:queue_devices_used:ratio{resource=~"$resource"}', "{{queue}} {{resource}}"),
            unit="percentunit",
        ),
        graph(
            "Pending by reason",
            "QueueLimit: quota. NoFit: room. See the reference of reasons.",
            ("sum by (reason) (muster_workloads_pending)", "{{reason}}"),
            stacked=True,
        ),
        graph(
            "Longest wait",
            "Of the ten queues in which a workload has waited longest.",
            ("topk(10, muster_queue_longest_wait_seconds)", "{{queue}}"),
            unit="s",
        ),
        graph(
            "Borrowed and lent",
            "Devices above what a queue deserves, and by whom they are lent.",
            (f"sum by (queue) (muster_queue_borrowed{{{_DEVICES}}}) {_LEAVES}", "{{queue}} borrows"),
            (f"-sum by (queue) (muster_queue_lent{{{_DEVICES}}})", "{{queue}} lends"),
        ),
        graph(
            "Deviation from the fair share",
            "below: of the waiting queue that has least of its share; above: of the queue that has most meanwhile.",
            ("muster_fairness_deviation_ratio", "{{direction}}"),
            unit="percentunit",
        ),
        graph(
            "Devices used and idle",
            "Device-seconds a second, of usable nodes.",
            (
                'sum by (state) (rate(muster_device_seconds_total{resource=~"$resource"}[$__rate_interval]))',
                "{{state}}",
            ),
            stacked=True,
        ),
        graph(
            "Fragmentation",
            "Free devices, and those of them that no typical pod could use.",
            ('sum(muster_devices_free{resource=~"$resource"})', "free"),
            ("max(muster_devices_fragmented)", "fragmented"),
        ),
        graph(
            "Largest gang that fits",
            "Of pods with one device each, in the cluster and in the best domain of each level.",
            (
                'max by (level, resource) (muster_largest_gang_pods{pods="device",resource=~"$resource"})',
                "{{level}} {{resource}}",
            ),
        ),
        graph(
            "Evictions",
            "Admissions a minute, by the rule.",
            ("60 * sum by (reason) (rate(muster_evictions_total[$__rate_interval]))", "{{reason}}"),
        ),
        graph(
            "Work lost by evictions",
            "Device-hours an hour.",
            ("sum by (reason) (rate(muster_lost_device_seconds_total[$__rate_interval]))", "{{reason}}"),
        ),
    ),
)

TENANT: Final = Dashboard(
    uid="muster-tenant",
    title="Muster / Tenant",
    description="One queue: use against quota, what it borrows and lends, waits, device-hours.",
    variables=(_QUEUE, _RESOURCE),
    panels=(
        stat("Share", 'muster_queue_share_ratio{queue="$queue"}', "Of what it deserves.", unit="percentunit"),
        stat(
            "Pending workloads",
            'sum(muster_workloads_pending{queue="$queue"}) or vector(0)',
            "In this queue.",
        ),
        stat(
            "Longest wait",
            'max(muster_queue_longest_wait_seconds{queue="$queue"}) or vector(0)',
            "Of the workload that has waited longest.",
            unit="s",
        ),
        stat(
            "Starving gangs",
            'sum(muster_gangs_starving{queue="$queue"}) or vector(0)',
            "Waiting for longer than starvation.clearAfter for what the queue deserves.",
        ),
        graph(
            "Use and quota",
            "Devices that the queue uses, and its limits; a limit that is not stated is not shown.",
            (f'sum by (resource) (muster_queue_used{{queue="$queue",{_DEVICES}}})', "{{resource}} used"),
            (
                f'sum by (resource) (muster_queue_deserved{{queue="$queue",{_DEVICES}}})',
                "{{resource}} deserved",
            ),
            (
                f'sum by (resource) (muster_queue_guarantee{{queue="$queue",{_DEVICES}}})',
                "{{resource}} guarantee",
            ),
            (
                f'sum by (resource) (muster_queue_capability{{queue="$queue",{_DEVICES}}})',
                "{{resource}} capability",
            ),
        ),
        graph(
            "Borrowed and lent",
            "Devices above what the queue deserves; devices that it deserves and others use.",
            (
                f'sum by (resource) (muster_queue_borrowed{{queue="$queue",{_DEVICES}}})',
                "{{resource}} borrowed",
            ),
            (f'sum by (resource) (muster_queue_lent{{queue="$queue",{_DEVICES}}})', "{{resource}} lent"),
        ),
        graph(
            "Pending by reason",
            "kubectl muster explain NAME tells more of one workload.",
            ('sum by (reason) (muster_workloads_pending{queue="$queue"})', "{{reason}}"),
            stacked=True,
        ),
        graph(
            "Wait by size",
            "From creation to admission, of gangs of so many devices, over the last hour.",
            ('muster:gang_wait_seconds:p50_1h{queue="$queue"}', "{{size}} devices p50"),
            ('muster:gang_wait_seconds:p99_1h{queue="$queue"}', "{{size}} devices p99"),
            unit="s",
        ),
        graph(
            "Device-hours, owned and borrowed",
            "Of each hour.",
            (
                'sum by (kind) (increase(muster_queue_device_seconds_total{queue="$queue",resource=~"$resource"}[1h]))'
                " / 3600",
                "{{kind}}",
            ),
            stacked=True,
        ),
        graph(
            "Admitted and idle",
            "Part of the device-time of the queue's pods in which the device computed nothing. Needs node agents.",
            (
                'sum(rate(muster_gpu_admitted_idle_seconds_total{queue="$queue"}[$__rate_interval]))'
                ' / sum(rate(muster_gpu_admitted_seconds_total{queue="$queue"}[$__rate_interval]))',
                "idle",
            ),
            unit="percentunit",
        ),
    ),
)

GANG_LATENCY: Final = Dashboard(
    uid="muster-gang-latency",
    title="Muster / Gang latency",
    description="From the creation of a gang to its running pods, stage by stage.",
    panels=(
        quantiles(
            "Created to admitted",
            "The wait for quota and room. Creation times have a resolution of a second.",
            'muster_gang_stage_seconds_bucket{stage="created_to_admitted"}',
            "",
            at=_ALL,
        ),
        quantiles(
            "Admitted to bound",
            "The last pod has a node: Muster's release, the owner that makes pods, and the stock scheduler.",
            'muster_gang_stage_seconds_bucket{stage="admitted_to_bound"}',
            "",
            at=_ALL,
        ),
        quantiles(
            "Stages, 99th percentile",
            "All are from the commit of the admission on, but for the first one.",
            "muster_gang_stage_seconds_bucket",
            "stage",
            at=(0.99,),
        ),
        quantiles(
            "Wait by size",
            "By the number of devices of the gang.",
            "muster_gang_wait_seconds_bucket",
            "size",
            at=(0.5, 0.99),
        ),
        Panel(
            title="Waits for admission",
            description="How many gangs waited for how long.",
            queries=(
                Query(
                    "sum by (le) (increase(muster_gang_stage_seconds_bucket"
                    '{stage="created_to_admitted"}[$__rate_interval]))',
                    "{{le}}",
                ),
            ),
            unit="s",
            kind="heatmap",
        ),
        graph(
            "Decisions",
            "Admissions a minute.",
            (
                '60 * sum by (what) (rate(muster_decisions_total{what=~"admit|adopt|evict|drop"}[$__rate_interval]))',
                "{{what}}",
            ),
        ),
        quantiles(
            "Turn by phase",
            "What each turn adds to a wait.",
            "muster_turn_phase_seconds_bucket",
            "phase",
            at=(0.99,),
        ),
        quantiles(
            "Dry runs of pod templates",
            "The API server is asked once for each template of a namespace.",
            "muster_dry_run_seconds_bucket",
            "outcome",
            at=(0.99,),
        ),
    ),
)

GPU_HEALTH: Final = Dashboard(
    uid="muster-gpu-health",
    title="Muster / GPU health",
    description="Unhealthy devices, recoveries, and what node agents read of each device.",
    panels=(
        stat("Unhealthy devices", "sum(muster_devices_faulty) or vector(0)", "They take no new work."),
        stat("Nodes with faults", "sum(muster_nodes_faulty)", "With at least one such device."),
        stat(
            "Closed nodes",
            "sum(muster_nodes_closed) or vector(0)",
            "They get no GPU work until they are repaired and tested.",
        ),
        stat(
            "Need a person",
            'sum(muster_nodes_closed{phase="failed"}) or vector(0)',
            "Closed nodes whose repair was given up.",
        ),
        stat("Agents", 'count(up{job=~".*muster-agent.*"} == 1) or vector(0)', "Node agents that answer."),
        graph(
            "Unhealthy by reason",
            "kubectl muster nodes --faulty names the nodes.",
            ("sum by (reason) (muster_devices_faulty)", "{{reason}}"),
            stacked=True,
        ),
        graph(
            "Devices of unusable nodes",
            "Of nodes that take no new pods, by the reason.",
            ("sum by (why) (muster_devices_unusable)", "{{why}}"),
            stacked=True,
        ),
        graph(
            "Closed nodes by phase",
            "Because of a fault.",
            ("sum by (phase) (muster_nodes_closed)", "{{phase}}"),
            stacked=True,
        ),
        graph(
            "Conditions",
            "Devices with a fault, or that need attention.",
            ("sum by (type, reason) (muster_gpu_condition)", "{{type}} {{reason}}"),
        ),
        graph(
            "Utilisation by queue",
            "Mean over the devices that pods of the queue have.",
            ('avg by (queue) (muster_gpu_utilisation_ratio{queue!=""})', "{{queue}}"),
            unit="percentunit",
        ),
        graph(
            "Admitted and idle",
            "Devices that a pod has and that compute nothing, by queue.",
            ("sum by (queue) (rate(muster_gpu_admitted_idle_seconds_total[$__rate_interval]))", "{{queue}}"),
        ),
        graph(
            "Temperature",
            "The hottest devices.",
            ("topk(10, muster_gpu_temperature_celsius)", "{{instance}} {{gpu}}"),
            unit="celsius",
        ),
        graph(
            "Power",
            "Of all devices, and the most that they may draw.",
            ("sum(muster_gpu_power_watts)", "drawn"),
            ("sum(muster_gpu_power_limit_watts)", "limit"),
            unit="watt",
        ),
        graph(
            "Memory of devices",
            "In use, and in all.",
            ("sum(muster_gpu_memory_used_bytes)", "used"),
            ("sum(muster_gpu_memory_bytes)", "all"),
            unit="bytes",
        ),
        graph(
            "Errors",
            "Uncorrected errors of memory since the driver was loaded, and XIDs.",
            ("sum by (instance) (muster_gpu_ecc_uncorrected_errors)", "{{instance}} uncorrected"),
            (
                "sum by (instance, class) (increase(muster_gpu_xids_total[$__rate_interval]))",
                "{{instance}} XID {{class}}",
            ),
        ),
        graph(
            "Links down and throttled devices",
            "NVLinks that are there and not active; devices with lower clocks, by the reason.",
            ("sum(muster_gpu_links_down)", "links down"),
            ("sum by (reason) (muster_gpu_throttled)", "throttled: {{reason}}"),
        ),
        graph(
            "Agents",
            "Seconds since the vendor's library answered last.",
            ("topk(10, muster_agent_silent_seconds)", "{{instance}} {{vendor}}"),
            unit="s",
        ),
    ),
)

MUSTER: Final = Dashboard(
    uid="muster-itself",
    title="Muster / Muster itself",
    description="Leadership, turns, Postgres, the API server, and the processes beside the leader.",
    panels=(
        stat("Leaders", "sum(muster_leader)", "One, or for seconds none."),
        stat("Replicas", "count(muster_leader)", "That are scraped."),
        stat(
            "Last turn", "max(muster_turn_age_seconds)", "A turn comes at least every five seconds.", unit="s"
        ),
        stat(
            "Available",
            "1 - muster:admission_unavailable:ratio_30d",
            "Part of the last 30 days.",
            unit="percentunit",
        ),
        stat(
            "Decision p99",
            "muster:decision_seconds:p99_10m",
            "Of the last ten minutes; the objective is 1 s.",
            unit="s",
        ),
        stat(
            "Certificates",
            "min(muster_certificate_expiry_timestamp_seconds) - time()",
            "Until the first one ends. Each is renewed when a third of its life is left.",
            unit="s",
        ),
        graph("Who leads", "1: this replica.", ("muster_leader", "{{instance}}")),
        graph(
            "Turns",
            "A second.",
            ("sum(rate(muster_turns_total[$__rate_interval]))", "turns"),
            ("sum(rate(muster_turns_put_off_total[$__rate_interval]))", "put off"),
            ("sum(rate(muster_decisions_failed_total[$__rate_interval]))", "decisions failed"),
        ),
        quantiles(
            "Phases of a turn",
            "freeze: the snapshot; decide: the engine; apply: the transaction.",
            "muster_turn_phase_seconds_bucket",
            "phase",
            at=(0.5, 0.99),
        ),
        quantiles(
            "Transactions",
            "Of the leading process, by outcome.",
            "muster_transaction_seconds_bucket",
            "outcome",
            at=(0.5, 0.99),
        ),
        graph(
            "Transactions by outcome",
            "A second.",
            ("sum by (outcome) (rate(muster_transaction_seconds_count[$__rate_interval]))", "{{outcome}}"),
        ),
        graph(
            "Requests to the API server",
            "A second, by status.",
            ("sum by (verb, code) (rate(muster_api_requests_total[$__rate_interval]))", "{{verb}} {{code}}"),
        ),
        graph(
            "Writes",
            "A second, by outcome.",
            (
                "sum by (resource, outcome) (rate(muster_api_writes_total[$__rate_interval]))",
                "{{resource}} {{outcome}}",
            ),
            (
                "sum by (resource) (rate(muster_api_retries_total[$__rate_interval]))",
                "{{resource}} sent again",
            ),
        ),
        graph(
            "Watches",
            "Seconds since the API server was last heard.",
            ("max by (kind) (muster_informer_silent_seconds)", "{{kind}}"),
            unit="s",
        ),
        graph(
            "Objects",
            "That the leader knows.",
            ("max by (kind) (muster_informer_objects)", "{{kind}}"),
        ),
        graph(
            "Full lists",
            "More than the first one: a watch broke.",
            ("sum by (kind) (muster_informer_lists_total)", "{{kind}}"),
        ),
        graph(
            "Event loop",
            "Longest time in five minutes for which it stood still.",
            ("muster_loop_block_seconds", "{{instance}}"),
            unit="s",
        ),
        graph(
            "Processes beside the leader",
            "1: it serves.",
            ("muster_serving_process_up", "{{instance}} {{role}}"),
        ),
        graph(
            "Trouble",
            "Workloads set aside, and Jobs of which the pods cannot be listed.",
            ("max(muster_workloads_set_aside)", "set aside"),
            ("max(muster_jobs_unlisted)", "unlisted"),
        ),
        graph(
            "Terms ended by errors",
            "In ten minutes.",
            ("sum by (error) (increase(muster_terms_ended_total[10m]))", "{{error}}"),
        ),
        graph(
            "Retention",
            "Time for which rows have outlived it.",
            ("max by (history) (muster_retention_lag_seconds)", "{{history}}"),
            unit="s",
        ),
    ),
)

#: By the name of the file.
DASHBOARDS: Final = {
    "platform": PLATFORM,
    "tenant": TENANT,
    "gang-latency": GANG_LATENCY,
    "gpu-health": GPU_HEALTH,
    "muster": MUSTER,
}


def texts() -> dict[str, str]:
    """File name → content."""
    return {
        f"{name}.json": json.dumps(dashboard.document(), indent=2) + "\n"
        for name, dashboard in DASHBOARDS.items()
    }


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
