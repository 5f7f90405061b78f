#!/bin/bash
# Makes one simulated machine out of namespaces and becomes its first process. Called twice: on the host, and inside.
#
#   machine.sh host FOLDER SLOT        as root; FOLDER holds `request` (shell variables), `env0` (NAME=value, each ended by NUL),
#                                      `keys`, `hostkey`, `start` (may be missing) and `init.py`
#
# Prints `up PID SLOT` once the machine has its network. Everything ends with the process that called it: the first process
# inside dies with its parent (kill-child), the parent with the caller (pdeathsig), and with them network, mounts and files.
set -eu
umask 022

link=svcsim
address() { # the SLOT-th network of four addresses in 198.18.0.0/15, and the $2-th address in it
  local n=$(($1 * 4 + $2))
  echo "198.$((18 + n / 65536)).$((n / 256 % 256)).$((n % 256))"
}

host() {
  exec 9</proc/self/ns/net
  exec setpriv --pdeathsig KILL unshare -n -m -u -i -p --fork --kill-child=KILL --propagation private \
    bash "$1/machine.sh" inside "$1" "$2"
}

network() {
  local tries=0 said
  # Nobody makes one while another is looked at and removed: names are used again.
  until said=$(flock "$LINKS_LOCK" nsenter --net=/proc/self/fd/9 ip link add $link$slot type veth peer name eth0 netns 1 2>&1); do
    # Another fleet on this computer has that one.
    case $said in *exists*) ;; *) echo "$said" >&2 && exit 1 ;; esac
    slot=$(((slot + 1) % 32768)) tries=$((tries + 1))
    [ $tries -lt 2000 ] || exit 1
  done
  local gate ip
  gate=$(address $slot 1) ip=$(address $slot 2)
  nsenter --net=/proc/self/fd/9 sh -c '
    printf "%s\n" "link set '$link$slot' alias svcsim-owner-'$OWNER' up" "addr add '$gate'/30 dev '$link$slot'" | ip -batch - &&
    # Only what comes from this link is forwarded; the computer itself stays no router.
    echo 1 2>/dev/null >/proc/sys/net/ipv4/conf/'$link$slot'/forwarding || true'
  printf '%s\n' "link set lo up" "addr add $ip/30 dev eth0" "link set eth0 up" "route add 198.18.0.0/15 via $gate" | ip -batch -
}

files() {
  local root=$folder/root
  mkdir -p "$root"
  mount -t tmpfs -o "size=${DISK_MB}m,mode=755" disk "$root"
  cd "$root"
  mkdir -p usr etc/ssh etc/sim proc sys dev/pts dev/shm tmp run/sshd run/lock var/tmp var/log var/lib var/cache root/.ssh \
    workspace home opt/bin opt/host old srv mnt
  mount --rbind /usr usr
  mount -o remount,bind,ro usr
  ln -s usr/bin usr/sbin usr/lib usr/lib64 .
  cp -a $(ls -d /etc/ld.so.cache /etc/alternatives /etc/nsswitch.conf /etc/localtime /etc/services /etc/protocols 2>/dev/null) etc/
  if [ -n "$(ls /usr/local/bin)" ]; then
    mount --bind usr/local/bin opt/host
    for each in /usr/local/bin/*; do ln -sfn "/opt/host/${each##*/}" opt/bin/; done
  fi
  local each
  for each in $BINDS; do
    mkdir -p ".${each#*:}"
    mount --rbind "${each%%:*}" ".${each#*:}"
    mount -o remount,bind,ro ".${each#*:}"
  done
  users
  tools
  mount --bind opt/bin usr/local/bin
  chmod 1777 tmp var/tmp dev/shm
  mount -t proc proc proc
  cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty dev/
  ln -s /proc/self/fd dev/fd
  ln -s pts/ptmx dev/ptmx
  mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
  cat /proc/sys/kernel/random/uuid >etc/sim/boot-id
  mount --bind etc/sim/boot-id proc/sys/kernel/random/boot_id
}

users() {
  local home=/root keys=root/.ssh/authorized_keys
  printf 'root:x:0:0::/root:/bin/bash\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n' >etc/passwd
  printf 'root:x:0:\nnogroup:x:65534:\n' >etc/group
  printf 'root:*:1::::::\nsshd:*:1::::::\n' >etc/shadow
  printf 'nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n' >>etc/passwd
  printf '127.0.0.1 localhost %s\n' "$NAME" >etc/hosts
  echo "$NAME" >etc/hostname
  if [ "$LOGIN" != root ]; then
    home=/home/$LOGIN keys=home/$LOGIN/.ssh/authorized_keys
    printf '%s:x:1000:1000::%s:/bin/bash\n' "$LOGIN" "$home" >>etc/passwd
    printf '%s:x:1000:\n' "$LOGIN" >>etc/group
    printf '%s:*:1::::::\n' "$LOGIN" >>etc/shadow
    mkdir -p ".$home/.ssh"
    # Stands in for sudo, which needs a set-uid file: goes through this machine's own sshd with a key that works only there.
    ssh-keygen -q -t ed25519 -N '' -f etc/sim/sudo
    printf 'from="127.0.0.1" %s\n' "$(cat etc/sim/sudo.pub)" >root/.ssh/authorized_keys
    chown 1000:1000 etc/sim/sudo
    cat >opt/bin/sudo <<'SUDO'
#!/bin/bash
while :; do
  case ${1-} in
    --) shift; break ;;
    -u) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
[ "$(id -u)" != 0 ] || exec "$@"
printf -v line '%q ' "$@"
printf -v here '%q' "$PWD"
exec ssh -F none -T -i /etc/sim/sudo -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
  -o LogLevel=ERROR root@127.0.0.1 -- "cd $here 2>/dev/null; $line"
SUDO
    # A whole machine rather than a container can be powered off from inside.
    printf '#!/bin/sh\nexec kill -USR2 1\n' >opt/bin/poweroff
    cp opt/bin/poweroff opt/bin/shutdown
  fi
  cat "$folder/keys" >>"$keys"
  chmod 700 root "${keys%/*}" root/.ssh
  chmod 600 "$keys"
  [ "$LOGIN" = root ] || chown -R 1000:1000 ".$home"
}

tools() {
  cp "$folder/init.py" etc/sim/init.py
  [ ! -e "$folder/start" ] || cp "$folder/start" etc/sim/start
  cp "$folder/hostkey" etc/ssh/hostkey
  chmod 600 etc/ssh/hostkey
  : >etc/ssh/revoked
  # `none` within a Match block is taken for a file that is not there.
  : >etc/ssh/revoked-here
  # A list of revoked keys that cannot be read refuses every key.
  printf '%s\n' 'HostKey /etc/ssh/hostkey' 'PidFile /run/sshd.pid' 'UsePAM no' 'PasswordAuthentication no' \
    'KbdInteractiveAuthentication no' 'UseDNS no' 'PermitRootLogin prohibit-password' 'MaxStartups 100' 'MaxSessions 100' \
    'Subsystem sftp internal-sftp' 'RevokedKeys /etc/ssh/revoked' 'Match Address 127.0.0.1' '  RevokedKeys /etc/ssh/revoked-here' \
    >etc/ssh/sshd_config
  if [ "$GPUS" -gt 0 ]; then
    cp "$folder/nvidia-smi" opt/bin/nvidia-smi
    printf '%s\n%s\n' "$GPUS" "$GPU_NAME" >etc/sim/gpus
  fi
  chmod 755 opt/bin/* 2>/dev/null || true
}

inside() {
  folder=$1 slot=$2
  # This is still the computer's own /proc: the number by which it knows this process.
  read -r pid rest </proc/self/stat
  . "$folder/request"
  mapfile -d '' -t variables <"$folder/env0"
  network
  files
  hostname "$NAME"
  pivot_root . old
  cd /
  umount -l old
  rmdir old
  echo "up $pid $slot"
  exec 9<&- </dev/null 1>&2
  exec env -i "${variables[@]}" /usr/bin/python3 -IS /etc/sim/init.py "$BOOT_SECONDS" "$API_PORT" "$(address "$slot" 1)"
}

"$@"
