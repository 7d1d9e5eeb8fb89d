"""Servers under faults: dead, slow, hostile and too many clients, and systems that run out of descriptors."""
