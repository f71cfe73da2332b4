"""A switch as a shell script that can be read, tried with ``--dry-run``, run, run again, and taken back.

Rules kept here:

1. POSIX sh with ``set -eu``; every value that comes from outside is quoted.
2. Each step looks first whether it was done: a script that was interrupted is simply run again.
3. Old files are kept in one folder, whose name comes from the two configurations, so that a second run finds
   it.  A state file is moved there once; what a new kubelet writes is never touched.
4. A node that somebody else had cordoned stays cordoned.
5. Where the kubelet does not come up, nothing more is done; its last words and the way back are shown.
"""

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from numawise.apps.plan.switch import DIRECTORY, Switch
from numawise.rules.versions import shown

MARK = "NUMAWISE_END_OF_CONFIGURATION"
BODY = r"""
usage() {
    cat <<'END'
usage: sh SCRIPT [--dry-run] [--no-drain] | --rollback [--dry-run]

  --dry-run   show what would be done, and do nothing
  --no-drain  the node is empty already: neither cordon, drain nor uncordon it
  --rollback  bring the old configuration and state files back

Environment: NODE, KUBELET_DIR, CONFIG, SERVICE, BACKUP, DRAIN_TIMEOUT, TRIES, PAUSE, SETTLE.
END
}

say() {
    printf '%s\n' "$*"
}

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# Do it, or only show it.
run() {
    if [ "$dry_run" = yes ]; then
        say "+ $*"
    else
        "$@"
    fi
}

# kubectl, unless the node is somebody else's business.
kube() {
    if [ "$drain" = yes ]; then
        run kubectl "$@"
    fi
}

needs() {
    command -v "$1" >/dev/null 2>&1 || fail "$1 is needed and not found; run this on the node, as root"
}

prepare() {
    if [ "$dry_run" = yes ]; then
        return
    fi
    needs systemctl
    [ "$drain" = no ] || needs kubectl
    [ -d "$KUBELET_DIR" ] || fail "$KUBELET_DIR does not exist; set KUBELET_DIR"
    [ -w "$KUBELET_DIR" ] || fail "$KUBELET_DIR cannot be written; run this as root"
    mkdir -p "$BACKUP"
}

cordon() {
    if [ "$drain" = no ] || [ -e "$BACKUP/cordoned" ]; then
        return
    fi
    if [ "$dry_run" = no ]; then
        cordoned=$(kubectl get node "$NODE" -o 'jsonpath={.spec.unschedulable}')
        if [ "$cordoned" = true ]; then
            say "$NODE is cordoned already, and stays so"
            return
        fi
    fi
    kube cordon "$NODE"
    run touch "$BACKUP/cordoned"
}

uncordon() {
    if [ "$dry_run" = yes ] || [ -e "$BACKUP/cordoned" ]; then
        kube uncordon "$NODE"
        run rm -f "$BACKUP/cordoned"
    fi
}

# A copy of every file as it was before the first run.
keep() {
    if [ -e "$BACKUP/kept" ]; then
        say "the old files are in $BACKUP"
        return
    fi
    if [ -e "$CONFIG" ] || [ "$dry_run" = yes ]; then
        run cp -p "$CONFIG" "$BACKUP/config.yaml"
    fi
    for name in $STATE_FILES; do
        if [ -e "$KUBELET_DIR/$name" ]; then
            run cp -p "$KUBELET_DIR/$name" "$BACKUP/$name"
        fi
    done
    run touch "$BACKUP/kept"
}

remove() {
    if [ -e "$BACKUP/removed.$1" ]; then
        say "$1 was removed before"
        return
    fi
    run rm -f "$KUBELET_DIR/$1"
    run touch "$BACKUP/removed.$1"
}

install_configuration() {
    if [ "$dry_run" = yes ]; then
        say "+ write the new configuration to $CONFIG"
        return
    fi
    new=$CONFIG.numawise.$$
    rm -f "$new"
    if [ -e "$CONFIG" ]; then
        cp -p "$CONFIG" "$new"
    else
        (umask 077 && : >"$new")
    fi
    new_configuration >"$new"
    if cmp -s "$new" "$CONFIG"; then
        rm -f "$new"
        say "$CONFIG is the new configuration already"
    else
        mv -f "$new" "$CONFIG"
    fi
}

names_policy() {
    grep -qF "\"policyName\":\"$2\"" "$KUBELET_DIR/$1" 2>/dev/null
}

is_up() {
    systemctl is-active --quiet "$SERVICE" || return 1
    if [ "$action" = rollback ]; then
        old_policies
    else
        new_policies
    fi
}

verify() {
    if [ "$dry_run" = yes ]; then
        say "+ wait until $SERVICE is active and its state files name the right policies"
        return
    fi
    tries=0
    until is_up; do
        tries=$((tries + 1))
        if [ "$tries" -ge "$TRIES" ]; then
            say "the kubelet does not come up:"
            journalctl -u "$SERVICE" -n 20 --no-pager 2>/dev/null || true
            [ "$action" = rollback ] || say "the way back: sh $0 --rollback"
            exit 1
        fi
        sleep "$PAUSE"
    done
    sleep "$SETTLE"
    is_up || fail "the kubelet came up and went down again; see: journalctl -u $SERVICE"
}

ready() {
    kube wait --for=condition=Ready "node/$NODE" --timeout=180s
}
"""

MAIN = r"""
restore() {
    [ "$dry_run" = yes ] || [ -e "$BACKUP/kept" ] || fail "there is nothing to bring back in $BACKUP"
    for name in $STATE_FILES; do
        if [ -e "$BACKUP/removed.$name" ]; then
            if [ -e "$BACKUP/$name" ]; then
                run cp -p "$BACKUP/$name" "$KUBELET_DIR/$name"
            else
                run rm -f "$KUBELET_DIR/$name"
            fi
        fi
    done
    if [ -e "$BACKUP/config.yaml" ] || [ "$dry_run" = yes ]; then
        run cp -p "$BACKUP/config.yaml" "$CONFIG"
    fi
}

dry_run=no
drain=@DRAIN@
action=switch
while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) dry_run=yes ;;
    --no-drain) drain=no ;;
    --rollback) action=rollback ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done

prepare
if [ "$action" = rollback ]; then
    say "back to the old configuration of $NODE"
    run systemctl stop "$SERVICE"
    restore
    run systemctl start "$SERVICE"
    verify
    ready
    uncordon
    if [ "$dry_run" = no ]; then
        mv "$BACKUP" "$BACKUP.undone.$$"
        say "done; what was kept is in $BACKUP.undone.$$"
    fi
    exit 0
fi

@STEPS@
say "done; the old files are in $BACKUP"
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a script will run."""

    node: str = ""
    """Name of the node; '' when it is to be asked of the host."""
    directory: str = DIRECTORY
    config: str = f"{DIRECTORY}/config.yaml"
    service: str = "kubelet"
    drain_timeout: str = "15m"


def switch_script(switch: Switch, place: Place, new_text: str, old_text: str) -> str:
    """The script; ``new_text``: the new configuration, as it is to stand in its file."""
    mark = MARK
    while mark in new_text:
        mark += "_"
    number = hashlib.sha256(f"{old_text}\0{new_text}".encode()).hexdigest()[:10]
    node = shlex.quote(place.node) if place.node else "$(hostname | tr '[:upper:]' '[:lower:]')"
    body = new_text if new_text.endswith("\n") else f"{new_text}\n"
    names = [name for name, _ in switch.policies]
    whose = f" of {_one_line(place.node)}" if place.node else ""
    head = [
        "#!/bin/sh",
        f"# Another configuration for the kubelet{whose} (Kubernetes {shown(switch.request.version)}).",
        "# Made by numawise plan switch. Run it on the node, as root: sh SCRIPT --dry-run, then sh SCRIPT.",
        "set -eu",
        "",
        *_setting("NODE", node),
        *_setting("KUBELET_DIR", shlex.quote(place.directory)),
        *_setting("CONFIG", shlex.quote(place.config)),
        *_setting("SERVICE", shlex.quote(place.service)),
        f"BACKUP=${{BACKUP:-$KUBELET_DIR/numawise-switch-{number}}}",
        *_setting("DRAIN_TIMEOUT", shlex.quote(place.drain_timeout)),
        "TRIES=${TRIES:-60}",
        "PAUSE=${PAUSE:-2}",
        "SETTLE=${SETTLE:-10}",
        f"STATE_FILES={shlex.quote(' '.join(names))}",
        "",
        "new_configuration() {",
        f"    cat <<'{mark}'",
        f"{body}{mark}",
        "}",
        "",
        *_policies("new_policies", switch.policies),
        "",
        *_policies("old_policies", switch.old_policies),
    ]
    main = MAIN.replace("@DRAIN@", "yes").replace("@STEPS@", "\n".join(_steps(switch)))
    return "\n".join(head) + "\n" + BODY + main


def _steps(switch: Switch) -> Sequence[str]:
    steps = [("cordon the node", ["cordon"])]
    if switch.drain:
        drain = 'kube drain "$NODE" --ignore-daemonsets --delete-emptydir-data --timeout="$DRAIN_TIMEOUT"'
        steps.append(("drain it", [drain]))
    steps.append(("stop the kubelet", ['run systemctl stop "$SERVICE"']))
    steps.append(("keep the old files", ["keep"]))
    if switch.removed:
        steps.append(
            (f"remove {' and '.join(switch.removed)}", [f"remove {name}" for name in switch.removed])
        )
    steps.append(("write the new configuration", ["install_configuration"]))
    steps.append(("start the kubelet", ['run systemctl start "$SERVICE"']))
    steps.append(("verify", ["verify", "ready"]))
    steps.append(("uncordon the node", ["uncordon"]))
    lines = []
    for number, (title, commands) in enumerate(steps, 1):
        lines.append(f"say {shlex.quote(f'step {number} of {len(steps)}: {title}')}")
        lines += commands
    return lines


def _policies(function: str, policies: Sequence[tuple[str, str]]) -> list[str]:
    tests = [
        f"    names_policy {shlex.quote(name)} {shlex.quote(policy)} || return 1" for name, policy in policies
    ]
    return [f"{function}() {{", *(tests or ["    :"]), "}"]


def _setting(name: str, value: str) -> tuple[str, str]:
    """A variable that the environment may set otherwise; ``value``: quoted."""
    return f"default={value}", f"{name}=${{{name}:-$default}}"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
