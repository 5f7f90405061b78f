#!/usr/bin/env bash
# Runs `npm run demo` and `npm test` as a newcomer does: with nothing but Node, npm, Python 3, procps and git on a Debian system, in a clean
# clone of the last commit of this checkout. Prints the exit code of each command; a test run itself says what it skipped and why.
#
#   scripts/bare-root.sh [--root DIR] [--hide] [--user] [COMMAND...]
#
#   --root DIR  keep the Debian root in DIR, and use the one that is there (default: a temporary one, removed at the end)
#   --hide      make no Debian root; hide the programs of this computer that a bare Debian lacks (what happens without root or debootstrap;
#               an ordinary user may do it where the kernel allows user namespaces)
#   --user      run the commands as an ordinary user of the Debian root instead of root
#   COMMAND     shell lines to run instead of the two commands
#
# The packages come from the registry that npm is configured for on this computer, and Node and npm are this computer's own. Only the
# first command, which installs the packages, has a network; the others have loopback alone.
#
# B1. Mounts and processes live in namespaces of their own: nothing outlives this script.
# B2. The exit code is 0 only when every command ended with 0 and left no process behind.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "bare-root: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

root='' hide='' user=''
while [ $# -gt 0 ]; do
  case $1 in
    --root) root=${2:?--root needs a folder}; shift 2 ;;
    --hide) hide=1; shift ;;
    --user) user=newcomer; shift ;;
    -*) die "unknown option $1" ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || set -- "npm run demo" "npm test"

[ "$(uname)" = Linux ] && has unshare || die "it needs Linux and unshare"
if [ "$(id -u)" != 0 ] || ! has debootstrap; then hide=1; fi

# The computer's own Node and npm, not those of this checkout.
PATH=$(printf %s "$PATH" | tr : '\n' | grep -vF "$PWD/node_modules" | paste -sd :)
has node && has npm || die "it needs node and npm on the PATH"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || die "it needs Node 20 or newer; this is $(node --version)"
node=$(node -p process.execPath) npm=$(dirname "$(dirname "$(realpath "$(command -v npm)")")")

work=$(mktemp -d /tmp/svc-bare.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT

# What a bare Debian has: its essential packages, Python 3, procps and git, by the names of their programs.
ESSENTIAL="[ addgroup adduser apt apt-get awk b2sum base32 base64 basename bash cat chgrp chmod chown chroot cksum clear cmp comm cp csplit cut
  dash date dd deb-systemd-helper df diff dir dircolors dirname dmesg dpkg dpkg-query du echo egrep env expand expr factor false fgrep find
  findmnt flock fmt fold free getconf getent getopt git gpgv grep groups gunzip gzip head hostid hostname id infocmp install ionice join
  kill ldconfig ldd link ln locale logger login logname ls lsblk lscpu lsns mawk md5sum mkdir mkfifo mknod mktemp more mount mountpoint mv
  namei nice nl nohup nproc nsenter numfmt od passwd paste pathchk perl pgrep pidof pidwait pinky pkill pmap pr printenv printf prlimit ps
  ptx pwd pwdx python3 readlink realpath renice rev rm rmdir runcon sed seq setpriv setsid sh sha1sum sha224sum sha256sum sha384sum sha512sum
  shred shuf skill slabtop sleep sort split stat stdbuf stty su sum sync sysctl tac tail tar taskset tee tempfile test timeout tload top touch
  tput tr true truncate tsort tty tzselect umount uname unexpand uniq unlink unshare uptime useradd users vdir vmstat w watch wc whereis which
  who whoami xargs yes zcat zdiff zgrep zless"

# A new Debian root with Node, npm and npm's settings of this computer in it.
make_root() {
  local from file
  if [ ! -x "$root/usr/bin/git" ]; then
    has debootstrap || die "it needs debootstrap to make $root"
    from=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME" || echo stable)
    echo "== debootstrap $from"
    debootstrap --variant=minbase --include=python3,procps,git "$from" "$root" >"$work/debootstrap.log" 2>&1 ||
      { tail -n 20 "$work/debootstrap.log" >&2; die "debootstrap failed"; }
  fi
  mkdir -p "$root/usr/lib/node_modules" "$root/usr/etc" "$root/etc/ssl/certs"
  install -m 755 "$node" "$root/usr/bin/node"
  rm -rf "$root/usr/lib/node_modules/npm"
  cp -a "$npm" "$root/usr/lib/node_modules/npm"
  ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/bin/npm"
  ln -sf ../lib/node_modules/npm/bin/npx-cli.js "$root/usr/bin/npx"
  chroot "$root" node --version >/dev/null || die "the Node of this computer does not run in a bare root; put a Node from nodejs.org on the PATH"
  if [ -n "$user" ] && ! chroot "$root" id "$user" >/dev/null 2>&1; then chroot "$root" useradd -m "$user"; fi
  for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt "$(npm config get cafile)" "${NODE_EXTRA_CA_CERTS:-}"; do
    if [ -f "$file" ]; then mkdir -p "$root$(dirname "$file")"; cp -L "$file" "$root$file"; fi
  done
}

home=/root
[ -z "$user" ] || home=/home/$user
if [ -z "$hide" ]; then
  # A root of our own goes with us: all that it holds is in it, since its mounts are in a namespace.
  root=${root:-$work/root}
  make_root
  inside=$root$home
else
  inside=$work/home home=$work/home
  mkdir -p "$inside"
fi
rm -rf "$inside/svc"
git clone --quiet --no-hardlinks . "$inside/svc"
settings=$(npm config get userconfig)
[ ! -f "$settings" ] || install -m 600 "$settings" "$inside/.npmrc"
settings=$(npm config get globalconfig)
[ -n "$hide" ] || [ ! -f "$settings" ] || install -m 644 "$settings" "$root/usr/etc/npmrc"
[ -z "$user" ] || [ -n "$hide" ] || chroot "$root" chown -R "$user:" "/home/$user"

# Runs as the first process of the namespaces: mounts, then one command, then a look at what it left.
cat >"$work/inside.sh" <<'END'
set -euo pipefail
mount --make-rprivate /
if [ -n "$ROOT" ]; then
  mount -t proc proc "$ROOT/proc"
  mount --rbind /dev "$ROOT/dev"
  mount --rbind /sys "$ROOT/sys"
  mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
  enter=(chroot ${AS:+--userspec="$AS:$AS" --groups="$AS"} "$ROOT")
else
  mount -t proc proc /proc 2>/dev/null || true
  mkdir -p "$WORK/bin" "$WORK/real" "$WORK/none"
  mount --bind /usr/bin "$WORK/real"
  for name in $ESSENTIAL; do
    for folder in /usr/bin /bin /usr/sbin /sbin; do
      [ -x "$folder/$name" ] || continue
      # A link through /etc/alternatives would lead back to a folder that is hidden.
      path=$(readlink -f "$folder/$name")
      case $path in
        /usr/bin/*) path=$WORK/real/${path#/usr/bin/} ;;
        *) cp "$path" "$WORK/bin/.$name"; path=$WORK/bin/.$name ;;
      esac
      ln -sf "$path" "$WORK/bin/$name"
      break
    done
  done
  cp "$NODE" "$WORK/bin/node"
  ln -sf "$NPM/bin/npm-cli.js" "$WORK/bin/npm"
  ensurepip=$(python3 -c 'import importlib.util as u; s = u.find_spec("ensurepip"); print(s.submodule_search_locations[0] if s else "")')
  [ -z "$ensurepip" ] || mount --bind "$WORK/none" "$ensurepip"
  for folder in /usr/sbin /usr/local/bin /usr/local/sbin; do [ ! -d "$folder" ] || mount --bind "$WORK/none" "$folder"; done
  mount --bind "$WORK/bin" /usr/bin
  # Root of a user namespace becomes the user again, as every program sees it.
  enter=()
  [ "$CALLER" = 0:0 ] || enter=(unshare --user --map-user="${CALLER%:*}" --map-group="${CALLER#*:}")
fi
if [ -n "$CLOSED" ]; then
  python3 -c 'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14s", b"lo", 0x49, b""))'
fi
code=0
"${enter[@]}" env -i HOME="$HOME_INSIDE" PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin LANG=C.UTF-8 "${PASSED[@]}" \
  bash -c 'cd "$HOME/svc" && eval "$1"' bash "$COMMAND" </dev/null || code=$?
left=''
for entry in "$ROOT"/proc/[0-9]*; do
  pid=${entry##*/}
  [ "$pid" != 1 ] || continue
  words=$(tr '\0' ' ' <"$entry/cmdline" 2>/dev/null || true)
  [ -z "$words" ] || left+="  $pid $words"$'\n'
done
[ -z "$left" ] || printf '== left running:\n%s' "$left"
echo "$code ${left:+left}" >"$WORK/ended"
END
# Settings of npm and of a proxy, as this shell has them.
cat >"$work/start.sh" <<'END'
PASSED=()
while IFS= read -r name; do
  case ${name,,} in npm_config_registry | npm_config_cafile | http_proxy | https_proxy | no_proxy | node_extra_ca_certs) PASSED+=("$name=${!name}") ;; esac
done < <(compgen -e)
. "$WORK/inside.sh"
END

export WORK=$work ROOT=$root AS=$user HOME_INSIDE=$home NODE=$node NPM=$npm ESSENTIAL CALLER="$(id -u):$(id -g)"
[ -z "$hide" ] || export ROOT=''
namespaces=(--mount --pid --fork --kill-child)
[ "$(id -u)" = 0 ] || namespaces+=(--user --map-root-user)
failed=0 closed=''
for command in "$@"; do
  echo "== ${hide:+(programs hidden) }$command${closed:+  (no network)}"
  rm -f "$work/ended"
  SECONDS=0
  COMMAND=$command CLOSED=$closed unshare "${namespaces[@]}" ${closed:+--net} bash "$work/start.sh" || true
  read -r code left <"$work/ended" || code=1
  echo "== $command: exit $code, ${SECONDS} s${left:+, processes left behind}"
  [ "$code" = 0 ] && [ -z "$left" ] || failed=1
  closed=1
done
exit $failed
