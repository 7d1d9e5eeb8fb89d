"""Subjects: grammar and matching (`grammar`), then rewriting (`transform`); pure functions on bytes."""
