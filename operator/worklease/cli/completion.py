"""Completion of commands, flags and names, for three shells and for `kubectl worklease`.

Each of them asks `worklease __complete WORD... LAST` and is answered as programs made with cobra answer: a candidate a
line, a tab and its description where there is one, and `:4` at the end, or `:0` where file names fit. That is
kubectl's convention for plugins too. What goes wrong is silent: there are no candidates then.
"""

import argparse
import asyncio
from typing import Any

from worklease.cli.grammar import parser

FILES, NO_FILES = ":0", ":4"
ANSWERED_WITHIN_SECONDS = 2.0
USER_AGENT = "worklease-completion"
NAMES_MAX = 500
FILE_FLAGS = {"kubeconfig", "status_file"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

BASH = """\
# bash completion of worklease
_worklease() {
  local cur=${COMP_WORDS[COMP_CWORD]} i lines line
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); return; fi
      if ((COMP_CWORD == i + 1)); then COMPREPLY=($(compgen -c -- "$cur")); fi
      return
    fi
  done
  mapfile -t lines < <(worklease __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=()
  for line in "${lines[@]}"; do
    case $line in
      :4) compopt +o default 2>/dev/null ;;
      :*) ;;
      *) COMPREPLY+=("${line%%$'\\t'*}") ;;
    esac
  done
}
complete -o default -F _worklease worklease
"""
ZSH = """\
#compdef worklease
_worklease() {
  local -a lines candidates
  local line directive i
  for ((i = 2; i < CURRENT; i++)); do
    if [[ ${words[i]} == -- ]]; then
      shift $i words
      ((CURRENT -= i))
      _normal
      return
    fi
  done
  lines=("${(@f)$(worklease __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    case $line in
      :*) directive=$line ;;
      *) candidates+=("${${line%%$'\\t'*}//:/\\\\:}${${(M)line:#*$'\\t'*}:+:${line#*$'\\t'}}") ;;
    esac
  done
  (($#candidates)) && _describe worklease candidates
  [[ $directive == :4 ]] || _files
}
if [[ $funcstack[1] == _worklease ]]; then _worklease "$@"; else compdef _worklease worklease; fi
"""
FISH = """\
# fish completion of worklease
function __worklease_candidates
  set -l words (commandline -opc) (commandline -ct)
  worklease __complete $words[2..-1] 2>/dev/null | string match -rv '^:'
end
function __worklease_no_files
  set -l words (commandline -opc) (commandline -ct)
  worklease __complete $words[2..-1] 2>/dev/null | string match -q ':4'
end
complete -c worklease -f -n __worklease_no_files
complete -c worklease -a '(__worklease_candidates)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


async def script(options: argparse.Namespace) -> int:
    """Prints the script of a shell."""
    print(SCRIPTS[options.shell], end="")
    return 0


def answer(words: list[str]) -> str:
    """The candidates for the last of the words, and whether file names are candidates too."""
    words = [word for word in words[:-1] if word != "="] + words[-1:]  # bash makes three words of --flag=value
    last = "" if words[-1:] in ([], ["="]) else words[-1]
    if "--" in words[:-1]:
        return FILES
    command, chosen, value_of, positionals = _walk(words[:-1])
    flag, equals, value = last.partition("=")
    if value_of is None and equals and (of := _flag(command, flag)) is not None:
        return _lines(_values(of, value, chosen), value, NO_FILES, before=f"{flag}=")
    if value_of is not None:
        if value_of.dest in FILE_FLAGS:
            return FILES
        return _lines(_values(value_of, last, chosen), last, NO_FILES)
    if last.startswith("-"):
        flags = {
            option: str(action.help or "")
            for action in command._actions
            for option in action.option_strings
            if action.help is not argparse.SUPPRESS and (option.startswith("--") or last == "-")
        }
        return _lines(flags, last, NO_FILES)
    return _lines(_positional(command, chosen, positionals), last, NO_FILES)


def _walk(words: list[str]) -> tuple[argparse.ArgumentParser, dict[str, str], argparse.Action | None, int]:
    """The command that the words lead to, the flags that were given, the one that waits for a value, how many NAMEs."""
    command: argparse.ArgumentParser = parser()
    chosen: dict[str, str] = {}
    waiting: argparse.Action | None = None
    positionals = 0
    for word in words:
        if waiting is not None and not (waiting.nargs == "?" and word.startswith("-")):
            chosen[waiting.dest] = word
            waiting = None
            continue
        waiting = None
        if word.startswith("-"):
            flag, equals, value = word.partition("=")
            action = _flag(command, flag)
            if action is not None and equals:
                chosen[action.dest] = value
            elif action is not None and action.nargs != 0:
                waiting = action
        elif (branches := _branches(command)) and word in branches:
            command = branches[word]
        else:
            positionals += 1
    return command, chosen, None if waiting is not None and waiting.nargs == "?" else waiting, positionals


def _flag(command: argparse.ArgumentParser, flag: str) -> argparse.Action | None:
    return command._option_string_actions.get(flag)


def _branches(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands below a command."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _positional(command: argparse.ArgumentParser, chosen: dict[str, str], given: int) -> dict[str, str]:
    if given:
        return {}
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {one.dest: str(one.help or "") for one in action._choices_actions}
        if not action.option_strings:
            if action.choices is not None:
                return dict.fromkeys(map(str, action.choices), "")
            return _ask(command.get_default("completes"), chosen)
    return {}


def _values(flag: argparse.Action, begun: str, chosen: dict[str, str]) -> dict[str, str]:
    """What can follow a flag."""
    if flag.choices is not None:
        return dict.fromkeys(map(str, flag.choices), "")
    return _ask(flag.dest, chosen) if flag.dest in ("namespace", "context") else {}


def _lines(candidates: dict[str, str], begun: str, directive: str, *, before: str = "") -> str:
    """The answer. bash has split --flag=value, so that there it is the value alone that is completed."""
    fitting = sorted(word for word in candidates if word.startswith(begun))
    said = [f"{before}{word}" + (f"\t{candidates[word]}" if candidates[word] else "") for word in fitting]
    return "\n".join([*said, directive])


def _ask(what: str, chosen: dict[str, str]) -> dict[str, str]:
    """Names with descriptions, of a kubeconfig or by one request to the API server."""
    try:
        if what == "context":
            return _contexts(chosen)
        return asyncio.run(_names(what, chosen))
    except Exception:  # noqa: BLE001 - a shell is not to be disturbed by whatever it is
        return {}


def _contexts(chosen: dict[str, str]) -> dict[str, str]:
    from worklease.kube.credentials import Source, context_names, kubeconfig_path

    return dict.fromkeys(context_names(kubeconfig_path(Source(chosen.get("kubeconfig")))), "")


async def _names(what: str, chosen: dict[str, str]) -> dict[str, str]:
    """The first names of a kind, with the columns that kubectl shows of them."""
    from urllib.parse import urlencode

    from worklease.kube.credentials import Source
    from worklease.kube.session import Session
    from worklease.kube.swap import path_of

    query: dict[str, Any] = {"limit": NAMES_MAX}
    if what == "handoffs":
        query["fieldSelector"] = "status.phase=Pending"
    source = Source(chosen.get("kubeconfig"), chosen.get("context"))
    # Not the time of the imports above: on a busy machine that is the longer part.
    async with asyncio.timeout(ANSWERED_WITHIN_SECONDS), await Session.open(source, user_agent=USER_AGENT) as session:
        credentials = session.credentials
        namespace = chosen.get("namespace") or credentials.namespace
        path = "/api/v1/namespaces" if what == "namespace" else path_of(namespace, plural=what)
        async with (
            session.connections(limit=1) as http,
            http.get(
                f"{credentials.server}{path}?{urlencode(query)}",
                headers={"Accept": TABLE},
                server_hostname=credentials.tls_server_name,
            ) as response,
        ):
            rows = (await response.json())["rows"] if response.status == 200 else []
    return {str(row["cells"][0]): " ".join(str(cell) for cell in row["cells"][1:3] if cell) for row in rows}
