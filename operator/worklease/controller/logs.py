"""Logs as text for people or JSON for machines: one line per decision, kopf's chatter left out."""

import json
import logging
import sys
from datetime import UTC, datetime

_EXTRAS = ("worklease", "reason", "epoch")


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in _EXTRAS if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _leave_out_attempts(record: logging.LogRecord) -> bool:
    """kopf tells each of its attempts; that the API server cannot be reached is said by us, and once."""
    return not (record.name.startswith("kopf.") and str(record.msg).startswith("Request attempt"))


def _leave_out_repetition(record: logging.LogRecord) -> bool:
    """asyncio repeats what a task of kopf failed with, which kopf has told already."""
    return not (record.name == "asyncio" and "never retrieved" in record.getMessage() and "kopf" in record.getMessage())


class _Terse(logging.Filter):
    """kopf's tracebacks of what it met on the network, in one line each: it is restarted, and nobody needs to act."""

    def filter(self, record: logging.LogRecord) -> bool:
        of_kopf = record.name.startswith("kopf") or (record.name == "asyncio" and "/kopf/" in record.getMessage())
        if of_kopf and record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            record.msg = f"{record.getMessage().splitlines()[0]} ({type(error).__name__})"
            record.args, record.exc_info, record.exc_text = (), None, None
        return True


def configure(form: str, level: str) -> None:
    """Send everything to stderr as `form` ("text" or "json") from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_leave_out_attempts)
    handler.setFormatter(
        JsonFormatter() if form == "json" else logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    )
    if level != "debug":
        handler.addFilter(_Terse())
        handler.addFilter(_leave_out_repetition)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
