"""Cron schedules and flows of Jobs: how they are written, and the rules for the documents that have them."""
