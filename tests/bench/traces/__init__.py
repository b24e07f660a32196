"""Recorded gangs in virtual time, judged: behind ``make traces``."""
