"""Scheduled messages: their headers, when one is due, and the timer that publishes it.

Never here: expiry of messages, or any other timer.
"""
