"""When the Jobs of a Volcano CronJob start, and which of them are kept. Pure."""
