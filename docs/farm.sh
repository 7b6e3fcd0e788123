#!/bin/sh
# Registers phones of this host at a tracker on the loopback of another, through ssh alone.
#
#     farm.sh USER@HOST PORT SERIAL...
#
# PORT is the tracker's, there and here. All is taken away when this ends.
set -eu
host=$1 port=$2
shift 2

control=$(mktemp -d)/ssh
ssh -f -N -M -S "$control" -o ExitOnForwardFailure=yes -o ServerAliveInterval=10 \
    -L "127.0.0.1:$port:127.0.0.1:$port" "$host"

leave() {
    trap - EXIT
    for serial in "$@"; do odtc device stop "$serial" || true; done
    ssh -S "$control" -O exit "$host"
    rmdir "${control%/ssh}"
}
trap 'leave "$@"' EXIT
trap 'exit 130' INT TERM

for serial in "$@"; do
    phone=$(odtc device setup "$serial" --tracker "$port" --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["port"])')
    ssh -S "$control" -O forward -R "127.0.0.1:$phone:127.0.0.1:$phone" "$host"
done
echo "registered at $host; Ctrl-C ends it" >&2
while ssh -S "$control" -O check "$host" 2>/dev/null; do sleep 5; done
