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
drain=yes
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
