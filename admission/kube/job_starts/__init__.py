"""Starts the Jobs of CronJobs and JobFlows, for one term of the leader."""
