"""Shells that are asked what they would complete, each as it runs for a user."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_BASH = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_shtab_odtc odtc
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# Completions of zsh are functions of its editor, which a terminal has: what they add is noted.
_ZSH = """\
autoload -U compinit; compinit -u -D; eval "$(<{script})"
compadd() {{
  builtin compadd "$@"
  local added=$?
  if [[ " $* " != *" -"[OAD]" "* ]]; then
    local -a found; builtin compadd -O found "$@"; print -l -- $found >>{noted}
  fi
  return $added
}}
after() {{ print END >>{noted} }}
note() {{ comppostfuncs=(after); zle complete-word }}
zle -N note; bindkey '^I' note
print READY
"""


def in_bash(script: Path, line: str) -> set[str]:
    """What bash completes a line to that ends within its last word."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    return set(_said("bash", "--norc", "-c", _BASH.format(script=script, words=quoted)))


def in_fish(script: Path, line: str) -> set[str]:
    """What fish does, without the descriptions."""
    said = _said("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'")
    return {each.partition("\t")[0] for each in said}


def in_zsh(script: Path, line: str) -> set[str]:
    """What zsh adds after a tab."""
    noted = script.with_name("noted.txt")
    noted.write_text("")
    host, terminal = pty.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True
    ) as process:
        os.close(terminal)
        try:
            os.write(host, _ZSH.format(script=script, noted=noted).encode())
            _until(host, lambda said: b"\nREADY" in said)
            os.write(host, f"{line}\t".encode())
            _until(host, lambda _: "END" in noted.read_text())
        finally:
            process.kill()
    os.close(host)
    return {*noted.read_text().splitlines()} - {"END", ""}


def _until(host: int, is_there: Callable[[bytes], bool]) -> None:
    """Reads what a terminal shows until something is there."""
    said, end = b"", time.monotonic() + 20
    while not is_there(said):
        assert time.monotonic() < end, said
        if select.select([host], [], [], 0.05)[0]:
            said += os.read(host, 65536)


def _said(*words: str) -> list[str]:
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
    assert not done.stderr
    return done.stdout.splitlines()
