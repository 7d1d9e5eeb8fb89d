"""Scheduled messages: their headers (`schedules`), the patterns (`cron`), the timer (`scheduler`).

Never here: expiry of messages, or any other timer.
"""
