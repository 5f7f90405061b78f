// The machine's own watch: a small shell loop that ends the machine when nobody comes for its run any more. docs/GUARD.md has
// the rules; here is the text that runs there.
//
// G1. One file, one rule: `keep` holds the second of the machine's uptime until which it must be kept. Past it, the machine ends
//     itself, again and again until it is gone.
// G2. Who moves `keep` forward: every contact of the control plane, and the runner while its run works. Nobody moves it back.
// G3. Uptime, not the wall clock, which a machine may set right after it has booted.
// G4. Only a key that opens this one machine is used, taken from where the provider put it; it stands on no command line.

/** Below this, one lost packet could cost a run. */
export const GUARD_GRACE_SECONDS_MIN = 10;
/** From the start of the machine until the first contact, beside the grace. */
const FIRST_CONTACT_SECONDS = 300;

/** Folder of the guard's files on the machine, where it runs as root. */
export const guardDir = (name: string): string => `/var/lib/svc/${name}`;

/**
 * POSIX shell text, to be run as root when the machine starts and whenever its container starts anew. Returns at once: the
 * watch goes on in the background, in a session of its own.
 *
 * @param selfEnd see `Provider.selfEnd`; it may use `svc_env NAME` (a variable of the machine) and
 *   `svc_call METHOD URL BODY` (JSON over HTTPS with the bearer key in `$SVC_KEY`; prints the answer, fails unless 2xx).
 */
export function guardScript(guard: { name: string; graceSeconds: number; selfEnd: string }): string {
  const grace = Math.max(GUARD_GRACE_SECONDS_MIN, Math.ceil(guard.graceSeconds));
  return `#!/bin/sh
# Ends this machine when nobody comes for its run any more.
dir=${guardDir(guard.name)}
umask 022
mkdir -p "$dir" && chmod 777 "$dir" || exit 0
cat >"$dir/guard.sh" <<'SVC_GUARD'
dir=$1
svc_env() {
  eval "value=\${$1-}"
  [ -n "$value" ] || value=$(tr '\\0' '\\n' </proc/1/environ 2>/dev/null | sed -n "s/^$1=//p" | head -n 1)
  printf %s "$value"
}
svc_call() {
  export SVC_KEY
  if command -v curl >/dev/null 2>&1; then
    printf 'header = "Authorization: Bearer %s"\\n' "$SVC_KEY" |
      curl -fsS -m 30 -K - -X "$1" -H 'Content-Type: application/json' --data "$3" "$2"
  else
    python3 -c 'import os,sys,urllib.request as u
r=u.Request(sys.argv[2],sys.argv[3].encode(),{"Content-Type":"application/json","Authorization":"Bearer "+os.environ["SVC_KEY"]},method=sys.argv[1])
print(u.urlopen(r,timeout=30).read().decode("utf8","replace"))' "$1" "$2" "$3"
  fi
}
end_machine() {
${guard.selfEnd}
}
uptime_s() { read -r up rest </proc/uptime; echo "\${up%%.*}"; }
echo $$ >"$dir/pid"
strange=0
while :; do
  sleep 2
  keep=$(cat "$dir/keep" 2>/dev/null)
  case $keep in
    '' | *[!0-9]*) strange=$((strange + 1)); [ "$strange" -gt 150 ] || continue ;;
    *) strange=0; [ "$(uptime_s)" -ge "$keep" ] || continue ;;
  esac
  echo "uptime $(uptime_s): nobody came, ending this machine" >>"$dir/log"
  (end_machine) >>"$dir/log" 2>&1
  sleep 15
done
SVC_GUARD
read -r up rest </proc/uptime
echo $((\${up%%.*} + ${grace + FIRST_CONTACT_SECONDS})) >"$dir/keep.new"
chmod 666 "$dir/keep.new"
mv -f "$dir/keep.new" "$dir/keep"
if command -v setsid >/dev/null 2>&1; then
  setsid sh "$dir/guard.sh" "$dir" </dev/null >/dev/null 2>&1 &
else
  nohup sh "$dir/guard.sh" "$dir" </dev/null >/dev/null 2>&1 &
fi
`;
}
