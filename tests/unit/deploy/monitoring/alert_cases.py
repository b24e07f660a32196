"""For each alert series that make it fire; ``tests/e2e/monitoring`` causes their faults."""

from typing import Final

from tests.unit.deploy.monitoring.promtool import Case

CASES: Final = (
    Case(
        alert="MusterNoLeader",
        series={'muster_leader{instance="a"}': "1x10 0x20", 'muster_leader{instance="b"}': "0x30"},
        quiet="10m",
        fires="12m",
        summary="No replica of Muster has led for 30 seconds. Nothing is admitted; running work goes on.",
    ),
    Case(
        alert="MusterNoLeader",
        series={'muster_leader{instance="a"}': "1x10 stale"},
        quiet="10m",
        fires="12m",
        summary="No replica of Muster has led for 30 seconds. Nothing is admitted; running work goes on.",
    ),
    Case(
        alert="MusterSeveralLeaders",
        series={'muster_leader{instance="east"}': "1x30", 'muster_leader{instance="west"}': "_x5 1x30"},
        quiet="14m",
        fires="17m",
        summary="2 leaders are counted as of one cluster, so an outage of one of them would not be noticed.",
    ),
    Case(
        alert="MusterTurnStuck",
        series={'muster_turn_age_seconds{instance="a"}': "5x10 90+60x10"},
        quiet="11m",
        fires="13m",
        summary="The leader has ended no turn for 3m 30s. Nothing is admitted.",
    ),
    Case(
        alert="MusterTermsFail",
        series={'muster_terms_ended_total{error="Fenced"}': "0x10 0+2x10"},
        quiet="12m",
        fires="20m",
        summary="18 terms of leadership ended by Fenced in ten minutes.",
        labels={"error": "Fenced"},
    ),
    Case(
        alert="MusterWorkloadSetAside",
        series={"muster_workloads_set_aside": "0x10 2x20"},
        quiet="14m",
        fires="17m",
        summary="Muster cannot handle 2 workloads and set them aside.",
    ),
    Case(
        alert="MusterJobsUnlisted",
        series={"muster_jobs_unlisted": "0x10 3x20"},
        quiet="14m",
        fires="17m",
        summary="Seats of 3 Jobs that are gone are kept, because their pods cannot be listed.",
    ),
    Case(
        alert="MusterLoopBlocked",
        series={'muster_loop_block_seconds{instance="a"}': "0.1x10 2.5x20"},
        # One block is told of for five minutes.
        quiet="20m",
        fires="22m",
        summary="The event loop of a stands still again and again, for up to 2.5s.",
        labels={"instance": "a"},
    ),
    Case(
        alert="MusterPostgresUnreachable",
        series={
            'muster_transaction_seconds_count{instance="a",outcome="committed"}': "0+30x10 300x20",
            'muster_transaction_seconds_count{instance="a",outcome="unavailable"}': "0x10 0+6x20",
        },
        quiet="11m",
        fires="15m",
        summary="Postgres does not serve 100% of the transactions of a.",
        labels={"instance": "a"},
    ),
    Case(
        alert="MusterLedgerRefuses",
        series={'muster_decisions_total{instance="a",what="drop"}': "0x10 0+1x30"},
        quiet="19m",
        fires="30m",
        summary="The ledger refused 10 admissions in ten minutes that the engine had decided.",
    ),
    Case(
        alert="MusterBackupLate",
        # Seconds from the first sample: the last success is 25 hours and 50 minutes before.
        series={
            'kube_cronjob_created{namespace="muster-system",cronjob="muster-backup"}': "-200000x30",
            'kube_cronjob_status_last_successful_time{namespace="muster-system",cronjob="muster-backup"}': "-93000x30",
            'kube_cronjob_status_last_successful_time{namespace="muster-system",cronjob="another"}': "-200000x30",
        },
        quiet="5m",
        fires="20m",
        summary="No backup of the database has succeeded for 1d 2h 10m 0s.",
    ),
    Case(
        alert="MusterBackupLate",
        series={'kube_cronjob_created{namespace="muster-system",cronjob="muster-backup"}': "-93000x30"},
        quiet="5m",
        fires="20m",
        summary="No backup of the database has succeeded for 1d 2h 10m 0s.",
    ),
    Case(
        alert="MusterRetentionBehind",
        series={'muster_retention_lag_seconds{history="postings"}': "259200x90"},
        quiet="50m",
        fires="61m",
        summary="Rows of postings have outlived their retention for 3d 0h 0m 0s.",
        labels={"history": "postings"},
    ),
    Case(
        alert="MusterWatchSilent",
        series={'muster_informer_silent_seconds{kind="pods"}': "10x10 130+60x10"},
        quiet="11m",
        fires="13m",
        summary="The watch of pods has heard nothing for 4m 10s.",
        labels={"kind": "pods"},
    ),
    Case(
        alert="MusterApiWritesFail",
        series={
            'muster_api_writes_total{resource="pods",outcome="ok"}': "0+60x40",
            'muster_api_writes_total{resource="pods",outcome="conflict"}': "0+20x40",
            'muster_api_writes_total{resource="pods",outcome="refused"}': "0x10 0+20x30",
        },
        quiet="15m",
        fires="35m",
        summary="20% of the writes to pods fail.",
        labels={"resource": "pods"},
    ),
    Case(
        alert="MusterWebhookAway",
        series={
            'muster_serving_process_up{instance="a",role="webhook"}': "1x10 0x20",
            'muster_serving_process_up{instance="b",role="webhook"}': "0x30",
        },
        quiet="10m",
        fires="13m",
        summary="No replica serves the admission webhook. Tenants' administrators cannot change their Queues, "
        "and nothing is checked at creation.",
    ),
    Case(
        alert="MusterReadApiAway",
        series={'muster_serving_process_up{instance="a",role="read"}': "1x10 0x20"},
        quiet="11m",
        fires="14m",
        summary="The read API does not answer. kubectl muster gets no answers, and no namespace of the "
        "cluster can be deleted.",
    ),
    Case(
        alert="MusterReadApiAway",
        series={
            'muster_serving_process_up{instance="a",role="read"}': "1x30",
            'aggregator_unavailable_apiservice{name="v1.read.muster.dev"}': "0x10 1x20",
            'aggregator_unavailable_apiservice{name="v1beta1.metrics.k8s.io"}': "1x30",
        },
        quiet="11m",
        fires="14m",
        summary="The read API does not answer. kubectl muster gets no answers, and no namespace of the "
        "cluster can be deleted.",
    ),
    Case(
        alert="MusterCertificateExpires",
        series={
            # Ten days from the second 0 on, of which an hour and a quarter has gone.
            'muster_certificate_expiry_timestamp_seconds{role="read",certificate="serving"}': "864000x90",
            'muster_certificate_lifetime_seconds{role="read",certificate="serving"}': "5184000x90",
            'muster_certificate_expiry_timestamp_seconds{role="read",certificate="authority"}': "9999999x90",
            'muster_certificate_lifetime_seconds{role="read",certificate="authority"}': "31536000x90",
        },
        quiet="14m",
        fires="75m",
        summary="The serving certificate of read ends in 9d 22h 45m 0s.",
        labels={"role": "read", "certificate": "serving"},
    ),
    Case(
        alert="MusterGangStarves",
        series={'muster_gangs_starving{queue="vision"}': "_x5 1x30"},
        quiet="19m",
        fires="22m",
        summary="In queue vision 1 gangs wait longer than starvation.clearAfter for what it deserves.",
        labels={"queue": "vision"},
    ),
    Case(
        alert="MusterQueueAboveCapability",
        series={
            'muster_queue_used{queue="vision",flavor="",resource="nvidia.com/gpu"}': "40x40",
            'muster_queue_capability{queue="vision",flavor="",resource="nvidia.com/gpu"}': "64x10 32x30",
            'muster_queue_used{queue="speech",flavor="",resource="nvidia.com/gpu"}': "40x40",
        },
        quiet="20m",
        fires="22m",
        summary="Queue vision uses 40 of nvidia.com/gpu, more than its capability.",
        labels={"queue": "vision", "resource": "nvidia.com/gpu"},
    ),
    Case(
        alert="MusterDevicesUnhealthy",
        series={'muster_devices_faulty{reason="XidFault"}': "0x10 2x20"},
        quiet="15m",
        fires="17m",
        summary="2 devices are unhealthy: XidFault.",
        labels={"reason": "XidFault"},
    ),
    Case(
        alert="MusterNodeRecoveryFailed",
        # Between two samples an increase is extrapolated, to 1.008 here.
        series={"muster_node_recoveries_failed_total": "0x70 1x60"},
        quiet="70m",
        fires="80m30s",
        summary="1 recoveries of nodes were given up in the last hour.",
    ),
    Case(
        alert="MusterAgentLibrarySilent",
        series={'muster_agent_silent_seconds{instance="n1",vendor="nvidia"}': "1x10 70+60x10"},
        quiet="11m",
        fires="13m",
        summary="On n1 the library of nvidia has not answered for 3m 10s.",
        labels={"instance": "n1", "vendor": "nvidia"},
    ),
    Case(
        alert="MusterAgentAway",
        series={'up{job="muster-agents/muster-agent",instance="n1"}': "1x10 0x20"},
        quiet="15m",
        fires="17m",
        summary="The node agent n1 does not answer. New faults of its devices are not seen.",
        labels={"job": "muster-agents/muster-agent", "instance": "n1"},
    ),
    Case(
        alert="MusterAdmissionBudgetBurnsFast",
        series={"muster_leader": "1x60 0x5", "muster_turn_age_seconds": "1x60 stale"},
        quiet="60m",
        fires="64m",
        summary="Admission was away for 5.785% of the last hour; the objective allows 0.1 %.",
    ),
    Case(
        alert="MusterAdmissionBudgetBurnsSlowly",
        series={"muster_leader": "1x360 0x5 1x5", "muster_turn_age_seconds": "1x370"},
        quiet="360m",
        fires="368m",
        summary="Admission was away for 1.664% of the last six hours; the objective allows 0.1 %.",
    ),
    Case(
        alert="MusterRecoveryLate",
        series={"muster_leader": "1x10 0x20", "muster_turn_age_seconds": "1x10 stale"},
        quiet="15m",
        fires="17m",
        summary="Admission has been away for five minutes, the longest that the objective allows.",
    ),
    Case(
        alert="MusterDecisionsSlow",
        series={
            'muster_turn_phase_seconds_bucket{phase="decide",le="1.0"}': "0+10x60",
            'muster_turn_phase_seconds_bucket{phase="decide",le="2.5"}': "0+20x60",
            'muster_turn_phase_seconds_bucket{phase="decide",le="+Inf"}': "0+20x60",
        },
        quiet="14m",
        fires="40m",
        summary="One decision in a hundred takes 2.47s; the objective is one second.",
    ),
)
