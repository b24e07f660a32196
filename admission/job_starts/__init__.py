"""Which Jobs of CronJobs and JobFlows start now, and what the statuses of both say. Pure."""
