#!/usr/bin/env bash
# Installs the package, starts the server as its unit would, upgrades, removes and purges it: in a copy of this machine that
# is gone afterwards. Run by `cargo xtask dist --check` in mount and process namespaces of its own.
#   install.sh FOLDER PACKAGE NEWER_PACKAGE PORT
set -euo pipefail
: "${METRICS:?start this with cargo xtask dist --check: it replaces the root of its mount namespace}"
folder=$1 package=$2 newer=$3 port=$4
root=$folder/root
key=dist-check-key-0001

fail() { echo "failed: $*" >&2; tail -n 20 /tmp/server.log >&2 2>/dev/null || true; exit 1; }
step() { echo "   $*"; }

# Everything that is written goes to memory, and nothing to this machine.
mount -t tmpfs tmpfs "$folder"
mkdir "$folder"/{changes,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/changes,workdir=$folder/work" "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
cp "$package" "$root/tmp/hedgerow.deb"
cp "$newer" "$root/tmp/newer.deb"
# Not chroot: in one the kernel lets nobody make the user namespaces that apps are isolated with.
mkdir "$root/machine"
cd "$root"
pivot_root . machine
cd /
umount --lazy /machine
[ "$(stat --file-system --format %T /)" = overlayfs ] || { echo "this is no overlay" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive

# The status and the body of a request.
get() {
    exec 3<>"/dev/tcp/127.0.0.1/$port" || return 1
    printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n' "$1" "$port" "$key" >&3
    cat <&3
    exec 3>&-
}
status() { get "$1" 2>/dev/null | sed -n '1s/^HTTP\/1.1 \([0-9]*\).*/\1/p'; }

# Starts what the unit starts, as its user, with its environment and without capabilities.
start() {
    local unit=/lib/systemd/system/hedgerow.service
    local command user
    command=$(sed -n 's/^ExecStart=//p' "$unit")
    user=$(sed -n 's/^User=//p' "$unit")
    # shellcheck disable=SC2016,SC2086
    env -i PATH=/usr/bin:/bin /bin/sh -c '
        umask 077; cd /var/lib/hedgerow; set -a; . /etc/default/hedgerow
        user=$1; shift
        exec setpriv --reuid "$user" --regid "$user" --init-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
    ' start "$user" $command >/tmp/server.log 2>&1 &
    server=$!
    for _ in $(seq 100); do
        [ "$(status /readyz)" = 200 ] && return
        kill -0 "$server" 2>/dev/null || fail "the server ended"
        sleep 0.2
    done
    fail "the server is not ready"
}

stop() {
    kill -TERM "$server"
    wait "$server" || fail "the server ended with $?"
}

step "install"
dpkg --install /tmp/hedgerow.deb >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log >&2; fail "dpkg --install"; }
getent passwd hedgerow >/dev/null || fail "there is no user hedgerow"
[ "$(stat -c '%U:%G %a' /etc/hedgerow/hedgerow.toml)" = "root:hedgerow 640" ] || fail "the settings are open to others"
[ "$(stat -c '%U:%G %a' /var/lib/hedgerow)" = "hedgerow:hedgerow 700" ] || fail "the data folder is open to others"
wants=/etc/systemd/system/multi-user.target.wants
[ -L "$wants/hedgerow.service" ] || fail "the unit is not enabled"
[ ! -e "$wants/hedgerow-worker.service" ] || fail "the worker is enabled automatically"
for file in man/man1/hedgerow.1.gz man/man1/hedgerow-users-create.1.gz bash-completion/completions/hedgerow \
    zsh/vendor-completions/_hedgerow fish/vendor_completions.d/hedgerow.fish doc/hedgerow/copyright \
    doc/hedgerow/THIRD-PARTY-LICENSES.txt; do
    [ -s "/usr/share/$file" ] || fail "/usr/share/$file is missing"
done
systemd-analyze verify --man=no /lib/systemd/system/hedgerow.service /lib/systemd/system/hedgerow-worker.service \
    >/tmp/verify.log 2>&1 || { cat /tmp/verify.log >&2; fail "systemd-analyze verify"; }
step "$(hedgerow --version)"

step "start, and ask"
sed -i "s/^listen = .*/listen = \"127.0.0.1:$port\"/" /etc/hedgerow/hedgerow.toml
echo "HEDGEROW_BOOTSTRAP_API_KEY=$key" >/etc/default/hedgerow
start
health=$(hedgerow health --config /etc/hedgerow/hedgerow.toml) || fail "hedgerow health"
step "${health//$'\n'/, }"
[ "$(status /api/organizations/)" = 200 ] || fail "the first key does not work"
organizations=$(get /api/organizations/ | tail -n 1)
[ "$(status /api/organizations/none/)" = 404 ] || fail "an unknown organization is not 404"
get /metrics | tr -d '\r' >/tmp/metrics
cat /tmp/metrics >&4
missing=$(sed -n 's/^hedgerow_sandbox_layer{layer="\(.*\)"} 0$/\1/p' /tmp/metrics | paste -sd ' ' -)
step "sandbox layers missing: ${missing:-none}"
open=$(find /var/lib/hedgerow -not -user hedgerow -o -perm /077 -not -type l)
[ -z "$open" ] || fail "others can read $open"
stop

step "upgrade"
dpkg --install --force-confold /tmp/newer.deb >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log >&2; fail "the upgrade"; }
grep -q ":$port\"" /etc/hedgerow/hedgerow.toml || fail "the upgrade lost the settings"
[ "$(stat -c '%U:%G %a' /etc/hedgerow/hedgerow.toml)" = "root:hedgerow 640" ] || fail "the upgrade opened the settings"
start
[ "$(get /api/organizations/ | tail -n 1)" = "$organizations" ] || fail "the upgrade lost the organization"
stop

step "remove"
dpkg --remove hedgerow >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log >&2; fail "dpkg --remove"; }
[ ! -e /usr/bin/hedgerow ] || fail "the binary is left"
[ -s /etc/hedgerow/hedgerow.toml ] || fail "removing deleted the settings"

step "purge"
dpkg --purge hedgerow >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log >&2; fail "dpkg --purge"; }
[ ! -e /etc/hedgerow ] || fail "/etc/hedgerow is left"
[ ! -L "$wants/hedgerow.service" ] || fail "the unit is still enabled"
[ -s /var/lib/hedgerow/hedgerow.sqlite ] || fail "purging deleted the database"
grep -q "are kept" /tmp/dpkg.log || fail "purging does not say that data are kept"
