"""Subjects that meet each other: few tokens, short, with wildcards.

Here lives the drawing of single subjects. Never lives here: what they are used for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

TOKENS: Final = ("a", "a", "a", "b", "b", "c")
FOREIGN_TOKENS: Final = ("x", "y")
"""First tokens of what is imported under another name, so that it can be told from what is local."""


def literal(rng: Random) -> str:
    """A subject to publish to."""
    return ".".join(rng.choices(TOKENS, k=rng.choice((1, 2, 2, 2, 3))))


def pattern(rng: Random) -> str:
    """A subject to subscribe to, often with wildcards."""
    tokens = ["*" if rng.random() < 0.25 else token for token in literal(rng).split(".")]
    if rng.random() < 0.2:
        tokens[-1:] = [">"] if rng.random() < 0.3 else [tokens[-1], ">"]
    return ".".join(tokens)


def narrowed(rng: Random, subject: str, *, wholly: bool = False) -> str:
    """A subject that a pattern contains; a literal one with `wholly`."""
    tokens: list[str] = []
    for token in subject.split("."):
        if token == ">" and (wholly or rng.random() < 0.5):
            tokens += rng.choices(TOKENS, k=rng.choice((1, 1, 2)))
        elif token == "*" and (wholly or rng.random() < 0.4):
            tokens.append(rng.choice(TOKENS))
        else:
            tokens.append(token)
    return ".".join(tokens)


def widened(rng: Random, subject: str) -> str:
    """A subscription that receives the subject, and perhaps more."""
    tokens = ["*" if token != ">" and rng.random() < 0.3 else token for token in subject.split(".")]
    if rng.random() < 0.2:
        cut = rng.randint(0, len(tokens) - 1)
        tokens[cut:] = [">"]
    return ".".join(tokens)
