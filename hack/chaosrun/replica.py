"""One replica of the operator: the shipped command, with its calls in the history, broken where a control says so."""

from __future__ import annotations

import sys

from worklease.controller import command

from .controls import break_operator
from .history import Recorder
from .party import Orders, record_calls


def main() -> None:
    """Is the operator of the orders on the command line, with the flags that follow them."""
    orders = Orders.read(sys.argv.pop(1))
    record_calls(Recorder(orders.directory, orders.party), bodies=False)
    break_operator(orders.without)
    command.main()


if __name__ == "__main__":
    main()
