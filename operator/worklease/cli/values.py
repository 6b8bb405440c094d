"""Values of flags, as people write them: times, names, epochs. What is none is said, with what would be one."""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from fractions import Fraction

from worklease.api.group import GROUP

NAME_MAX, NAMESPACE_MAX, EPOCH_DIGITS_MAX = 253, 63, 20
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAMESPACE = re.compile(_LABEL)
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_SECONDS = re.compile(_NUMBER)
_DURATION = re.compile(rf"(?=.)(?:({_NUMBER})h)?(?:({_NUMBER})m)?(?:({_NUMBER})s)?")
_UNIT_SECONDS = (3600, 60, 1)


def seconds(value: str) -> float:
    """A time: 60, 60s, 5m, 1h, 1h30m."""
    return float(_exactly(value))


def _exactly(value: str) -> Fraction:
    if _SECONDS.fullmatch(value):
        return Fraction(value)
    if found := _DURATION.fullmatch(value):
        given = zip(found.groups(), _UNIT_SECONDS, strict=True)
        return sum((Fraction(count) * unit for count, unit in given if count), Fraction())
    raise ArgumentTypeError(f"a time is 60 (seconds), 60s, 5m or 1h, not {value!r}")


def whole_seconds(value: str) -> int:
    """A time without a part of a second."""
    if (given := _exactly(value)).denominator != 1:
        raise ArgumentTypeError(f"it takes whole seconds, not {value!r}")
    return int(given)


def epoch(value: str) -> int:
    """An epoch, also one that nobody was ever granted."""
    if not (value.isascii() and value.isdecimal()) or len(value) > EPOCH_DIGITS_MAX:
        raise ArgumentTypeError(f"an epoch is a whole number, not {value!r}")
    return int(value)


def name_of(kind: str) -> Callable[[str], str]:
    """The name of an object of this kind, also as KIND/NAME or, with the API group, KIND.GROUP/NAME: so commands print
    it, and `kubectl -o name`.
    """
    printed = (f"{kind.lower()}/", f"{kind.lower()}.{GROUP}/")

    def name(value: str) -> str:
        given = next((value.removeprefix(prefix) for prefix in printed if value.startswith(prefix)), value)
        if len(given) > NAME_MAX or not _NAME.fullmatch(given):
            said = "a name has lower-case letters, digits, - and . only"
            raise ArgumentTypeError(f"no {kind} can be called {value[:NAME_MAX]!r}: {said}")
        return given

    return name


def namespace(value: str) -> str | None:
    """The name of a namespace. Without a character it is that of the context, as kubectl has it."""
    if not value:
        return None
    if len(value) > NAMESPACE_MAX or not _NAMESPACE.fullmatch(value):
        said = "a name has lower-case letters, digits and - only"
        raise ArgumentTypeError(f"no namespace can be called {value[:NAME_MAX]!r}: {said}")
    return value
