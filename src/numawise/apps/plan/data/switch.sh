usage() {
    cat <<'END'
usage: sh SCRIPT [--rollback] [--dry-run] [--force] [drain | switch | uncordon]

  drain       cordon and drain the node; needs kubectl, runs anywhere
  switch      change configuration and state files and start the kubelet; on the node, as root
  uncordon    look whether the kubelet has every new field, then uncordon; needs kubectl, runs anywhere
              without a word: all three, on a node that has kubectl
  --rollback  bring the old configuration and state files back, in the same three parts
  --dry-run   show what would be done, and do nothing
  --force     go on though the configuration on the node is not the one that this was planned for

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

needs() {
    [ "$dry_run" = yes ] || command -v "$1" >/dev/null 2>&1 || fail "$1 is needed and not found; $2"
}

sum_of() {
    sha256sum <"$1" | cut -d ' ' -f 1
}

# --- the cluster's part ---------------------------------------------------------------------------

# Who cordoned the node stands in the cluster, so that each part knows it wherever it runs.
MARK=numawise.dev/cordoned-by

cordon() {
    say "cordon $NODE"
    if [ "$dry_run" = no ]; then
        cordoned=$(kubectl get node "$NODE" -o 'jsonpath={.spec.unschedulable} {.metadata.annotations.numawise\.dev/cordoned-by}')
        case $cordoned in
        "true $NUMBER")
            say "$NODE was cordoned for this switch before"
            return
            ;;
        true*)
            say "$NODE is cordoned already, and stays so"
            return
            ;;
        esac
    fi
    run kubectl annotate node "$NODE" --overwrite "$MARK=$NUMBER"
    run kubectl cordon "$NODE"
}

drain() {
    if [ "$DRAIN" = yes ]; then
        say "drain $NODE"
        run kubectl drain "$NODE" --ignore-daemonsets --delete-emptydir-data --timeout="$DRAIN_TIMEOUT"
    fi
}

uncordon() {
    say "wait for $NODE"
    run kubectl wait --for=condition=Ready "node/$NODE" --timeout=180s
    if [ "$dry_run" = no ]; then
        if [ "$action" = switch ]; then
            if has_new_fields; then
                say "the kubelet has every new field"
            elif [ -n "$missing" ]; then
                fail "the kubelet of $NODE does not have the new $missing; the node stays cordoned"
            else
                say "whether the kubelet has every new field cannot be seen: configz does not answer"
            fi
        fi
        mine=$(kubectl get node "$NODE" -o 'jsonpath={.metadata.annotations.numawise\.dev/cordoned-by}')
        if [ "$mine" != "$NUMBER" ]; then
            say "$NODE was not cordoned for this switch, and stays as it is"
            return
        fi
    fi
    say "uncordon $NODE"
    run kubectl uncordon "$NODE"
    run kubectl annotate node "$NODE" "$MARK-"
}

# A field of the configuration that the kubelet runs with.
field() {
    case $configz in
    *"$2"*) ;;
    *) missing="${missing:+$missing, }$1" ;;
    esac
}

has_new_fields() {
    missing=
    configz=$(kubectl get --raw "/api/v1/nodes/$NODE/proxy/configz" 2>/dev/null) || return 1
    new_fields
    [ -z "$missing" ]
}

# --- the node's part ------------------------------------------------------------------------------

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

# Whether this is the right node, in the right state; nothing is touched before.
check_node() {
    needs systemctl "run this on the node, as root"
    needs sha256sum "run this on the node, as root"
    if [ "$dry_run" = no ]; then
        [ -d "$KUBELET_DIR" ] || fail "$KUBELET_DIR does not exist; run this on the node, or set KUBELET_DIR"
        [ -w "$KUBELET_DIR" ] || fail "$KUBELET_DIR cannot be written; run this as root"
    fi
    if [ "$dry_run" = yes ] && [ ! -e "$CONFIG" ]; then
        say "+ look whether $CONFIG is the configuration that this was planned for"
        return
    fi
    now=
    [ ! -e "$CONFIG" ] || now=$(sum_of "$CONFIG")
    if [ "$action" = rollback ]; then
        check_rollback
        return
    fi
    if [ -e "$BACKUP/undoing" ]; then
        fail "the way back was begun and not finished: sh $0 --rollback"
    elif [ -e "$BACKUP/begun" ] && [ ! -e "$BACKUP/done" ] && { [ "$now" = "$NEW_SUM" ] || [ "$now" = "$OLD_SUM" ]; }; then
        say "a switch that was interrupted goes on"
    elif [ "$now" = "$NEW_SUM" ]; then
        [ "$dry_run" = no ] || return 0
        is_up || fail "$CONFIG is the new configuration already, and the kubelet is not up; see: journalctl -u $SERVICE"
        say "$NODE is switched already; nothing is done"
        exit 0
    elif [ "$now" = "$OLD_SUM" ] || [ "$force" = yes ]; then
        if [ -e "$BACKUP" ]; then
            run mv "$BACKUP" "$BACKUP.before.$(date +%s).$$"
        fi
    elif [ -z "$OLD_SUM" ]; then
        fail "whether $CONFIG is the configuration that this was planned for is not known; plan with the node's own file as OLD, or use --force"
    else
        fail "$CONFIG is not the configuration that this was planned for (sha256 ${now:-none}, not $OLD_SUM); plan again with it as OLD, or use --force"
    fi
}

check_rollback() {
    if [ "$dry_run" = no ] && [ ! -e "$BACKUP/kept" ]; then
        fail "there is nothing to bring back in $BACKUP"
    fi
    if [ "$now" != "$NEW_SUM" ] && [ "$dry_run" = no ] && ! cmp -s "$CONFIG" "$BACKUP/config.yaml" && [ "$force" = no ]; then
        fail "$CONFIG was changed since the switch; bring it back by hand from $BACKUP, or use --force"
    fi
}

# A copy of every file as it was before.
keep() {
    if [ -e "$BACKUP/kept" ]; then
        say "the old files are in $BACKUP"
        return
    fi
    run mkdir -p "$BACKUP"
    run touch "$BACKUP/begun"
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

switch() {
    say "stop the kubelet"
    run systemctl stop "$SERVICE"
    say "keep the old files"
    keep
    for name in $REMOVE; do
        say "remove $name"
        remove "$name"
    done
    say "write the new configuration"
    install_configuration
    say "start the kubelet"
    run systemctl start "$SERVICE"
    verify
    run touch "$BACKUP/done"
    say "switched; the old files are in $BACKUP"
}

switch_back() {
    say "stop the kubelet"
    run systemctl stop "$SERVICE"
    run touch "$BACKUP/undoing"
    say "bring the old files back"
    for name in $REMOVE; do
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
    say "start the kubelet"
    run systemctl start "$SERVICE"
    verify
    if [ "$dry_run" = no ]; then
        mv "$BACKUP" "$BACKUP.undone.$$"
        say "switched back; what was kept is in $BACKUP.undone.$$"
    fi
}

dry_run=no
force=no
action=switch
part=all
while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) dry_run=yes ;;
    --force) force=yes ;;
    --rollback) action=rollback ;;
    drain | switch | uncordon)
        if [ "$part" != all ]; then
            usage >&2
            exit 2
        fi
        part=$1
        ;;
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

if [ "$part" != switch ]; then
    needs kubectl "without it run the part \"switch\" here, and \"drain\" and \"uncordon\" where it is"
fi
if [ "$part" = all ] || [ "$part" = switch ]; then
    check_node
elif [ "$part" = drain ] && [ "$action" = switch ] && [ "$dry_run" = no ] && has_new_fields; then
    say "the kubelet of $NODE has every new field already; nothing is done"
    exit 0
fi
if [ "$part" = all ] || [ "$part" = drain ]; then
    cordon
    drain
fi
if [ "$part" = all ] || [ "$part" = switch ]; then
    if [ "$action" = rollback ]; then
        switch_back
    else
        switch
    fi
fi
if [ "$part" = all ] || [ "$part" = uncordon ]; then
    uncordon
fi
