// The watchdog on the machine: a small shell loop that ends the machine when the control plane has stopped renewing
// `keep` for its run. docs/internals/guard.md has the rules G1 to G8; this file holds the text that runs on the
// machine. It starts with the machine, and every start sets `keep` again, whatever its value was: uptime continues when
// a container restarts, and begins at 0 with a new machine.

import type { RunSpec } from "../schemas/spec.ts";
import type { MachineLimit } from "./budget.ts";
import { stopGraceSeconds } from "./stop-grace.ts";

/** Below this, one lost packet could cost a run. */
export const GUARD_GRACE_SECONDS_MIN = 10;
/** From the start of the machine until the first contact, in addition to the grace. */
const FIRST_CONTACT_SECONDS = 300;
/** Polls (one every two seconds) with an unreadable `keep` before it counts as expired. */
const STRANGE_LOOKS = 150;
/** Timeout of one read of files or processes: neither a dead disk nor a locked process may keep the guard from its deadlines. */
const LOOK_SECONDS = 8;
/** Exit status of a wait whose time passed; a shell that can start no process has another one. */
const LATE = 9;
/** Timeout of one test whether a program runs. */
const PROGRAM_SECONDS = 20;
/** Timeout of one attempt to end the machine; the next attempt follows after a pause. */
const TRY_SECONDS = 180;
/** Pause after each of the first attempts, before the next check. With both, no provider is called more often than it allows. */
const SOON_SECONDS = 2;
const SOON_TRIES = 5;
const AGAIN_SECONDS = 15;
/** Time for the runner to record the end of the run. */
const STOP_SPARE_SECONDS = 5;

/** The guard of a machine that no control plane reaches ends it this many seconds after its start. */
export const firstContactSeconds = (graceSeconds: number): number =>
  Math.max(GUARD_GRACE_SECONDS_MIN, Math.ceil(graceSeconds)) + FIRST_CONTACT_SECONDS;

/** Folder of the guard's files on the machine, where it runs as root. */
export const guardDir = (name: string): string => `/var/lib/svc/${name}`;

export interface GuardedMachine {
  name: string;
  graceSeconds: number;
  selfEnd: string;
  /** Seconds between the stop order to a run that is still alive and the end of the machine. */
  stopSeconds: number;
  /** The budget's deadlines, counted from when the order was made; null or absent for none. */
  limit?: OrderLimit | null;
}

/** The guard's times for a run: the same at the machine's start and after the first contact. */
export const guardTimes = (spec: RunSpec): Pick<GuardedMachine, "graceSeconds" | "stopSeconds"> => ({
  graceSeconds: spec.orphan_grace_minutes * 60,
  stopSeconds: stopGraceSeconds(spec),
});

/** Deadlines of a machine from its order on. `madeAtMs` is this computer's clock at that time. */
export interface OrderLimit extends MachineLimit {
  madeAtMs: number;
}

/**
 * Shell text that writes `limit` at a start of the machine: the seconds that are left, or fewer if the clocks agree that the order is older.
 * The earlier of this and a stored limit counts: a restart must not give more time.
 */
function limitAtStart(limit: OrderLimit | null | undefined): string {
  if (!limit) return "";
  const [stop, end] = [Math.floor(limit.stopSeconds), Math.floor(limit.endSeconds)];
  return `
age=$(($(date +%s) - ${Math.floor(limit.madeAtMs / 1_000)}))
most=3600
[ ! -s "$dir/limit" ] || most=5184000
[ "$age" -ge 0 ] && [ "$age" -le "$most" ] || age=0
stop=$((\${up%%.*} + ${stop} - age)) end=$((\${up%%.*} + ${end} - age))
s= e=
{ read -r s e <"$dir/limit"; } 2>/dev/null
case $s$e in '' | *[!0-9]*) ;; *)
  [ "$s" -ge "$stop" ] || stop=$s
  [ "$e" -ge "$end" ] || end=$e ;;
esac
echo "$stop $end" >"$dir/limit"`;
}

/**
 * POSIX shell text, run as root when the machine starts and whenever its container restarts. Returns at once: the
 * watchdog continues in the background, in its own session.
 *
 * @param selfEnd see `Provider.selfEnd`; it may use `svc_env NAME` (a variable of the machine, as it was when the guard started),
 *   `svc_call METHOD URL BODY` (JSON over HTTPS with the bearer key in `$SVC_KEY`; prints the answer, fails unless 2xx),
 *   `$tries` (the number of this attempt, from 1) and `$patience` (after how many attempts to stop what cannot be deleted: 1 once the budget
 *   is spent, else empty).
 */
export function guardScript(guard: GuardedMachine): string {
  const stop = Math.ceil(guard.stopSeconds) + STOP_SPARE_SECONDS;
  return `#!/bin/sh
# Ends this machine when no control plane renews its time any more.
dir=${guardDir(guard.name)}
umask 022
mkdir -p "$dir" && chmod 755 "$dir" || exit 1
if cat >"$dir/guard.sh.new" <<'SVC_GUARD'
dir=$1
uptime_s() { read -r up rest </proc/uptime; echo "\${up%%.*}"; }
# wait_for PID N: waits N seconds at most; its status is ${LATE} if they passed.
wait_for() {
  waited=0
  while kill -0 "$1" 2>/dev/null && [ "$waited" -lt "$2" ]; do sleep 1; waited=$((waited + 1)); done
  [ "$waited" -lt "$2" ] || { kill -9 "$1" 2>/dev/null; return ${LATE}; }
}
# within N COMMAND: what it prints in N seconds. A command that waits for a dead disk or a locked process is left behind: not even KILL ends it.
within() {
  bound=$1
  shift
  "$@" 2>/dev/null | cat &
  wait_for $! "$bound"
}
# The machine's name, where its start wrote one, and the variables of its first process.
variables() { sed 's/^/SVC_MACHINE=/' "$dir/SVC_MACHINE"; tr '\\0' '\\n' </proc/1/environ; }
svc_env() {
  eval "value=\\\${$1-}"
  [ -n "$value$machine" ] || machine=$(within ${LOOK_SECONDS} variables)
  [ -n "$value" ] || value=$(printf '%s\\n' "$machine" | sed -n "s/^$1=//p" | head -n 1)
  printf %s "$value"
}
svc_call() {
  export SVC_KEY
  if [ -n "$(within ${PROGRAM_SECONDS} curl -V)" ]; then
    printf 'header = "Authorization: Bearer %s"\\n' "$SVC_KEY" |
      curl -fsS -m 30 -K - -X "$1" -H 'Content-Type: application/json' --data "$3" "$2"
  else
    for python in python3 /opt/conda/bin/python3 /usr/local/bin/python3 /usr/bin/python3 python; do
      [ -z "$(within ${PROGRAM_SECONDS} "$python" -c 'import urllib.request; print(1)')" ] || break
    done
    "$python" -c 'import os,signal,sys,urllib.request as u
signal.alarm(60)
r=u.Request(sys.argv[2],sys.argv[3].encode(),{"Content-Type":"application/json","Authorization":"Bearer "+os.environ["SVC_KEY"]},method=sys.argv[1])
print(u.urlopen(r,timeout=30).read().decode("utf8","replace"))' "$1" "$2" "$3"
  fi
}
end_machine() {
${guard.selfEnd}
}
# Its log, if it can be written.
say() { (echo "uptime $now: $1" >>"$dir/log") && echo "$dir/log"; }
note() { log=$(within ${LOOK_SECONDS} say "$1"); }
# Runners of this machine's run: they ask its script by TERM, and kill it after the grace of the run. Only their own command lines are
# read, as that of a process whose memory is locked blocks; a runner of version 0.1 is found among every Python.
runners() {
  found=
  for kind in svc_runner python; do
    for p in /proc/[0-9]*; do
      read -r comm <"$p/comm" || continue
      case $comm in "$kind"*) ;; *) continue ;; esac
      words=$(tr '\\0' '\\n' <"$p/cmdline")
      case $words in *svc_runner*) ;; *) continue ;; esac
      run=$(echo "$words" | sed -n '/^start$/{n;p;}')
      [ -z "$run" ] || ! grep -qF "$dir/keep" "$run/spec.json" || { found=1; echo "\${p##*/}"; }
    done
    [ -z "$found" ] || return 0
  done
}
try_to_end() {
  tries=$((tries + 1))
  # Neither a disk that takes nothing nor a call that never returns keeps it from being tried again.
  (end_machine) </dev/null >>"\${log:-/dev/null}" 2>&1 &
  wait_for $! ${TRY_SECONDS}
  [ "$tries" -gt ${SOON_TRIES} ] || { sleep ${SOON_SECONDS}; return; }
  sleep ${AGAIN_SECONDS}
}
number() { case $1 in '' | *[!0-9]* | ??????????*) echo - ;; *) echo "$1" ;; esac; }
# Uptime, the guard's pid, \`keep\`, and the budget's limit; - for what is missing or no number.
numbers() {
  number "$(uptime_s)"
  for each in pid keep; do a=; read -r a <"$dir/$each"; number "$a"; done
  s= e=
  read -r s e <"$dir/limit"
  number "$s"
  number "$e"
}
# If they cannot be read in time, the guard adds that time to its clock, keeps the limit and takes \`keep\` for missing. If no process
# could be started, it adds the one second of its pause.
look() {
  got=$(within ${LOOK_SECONDS} numbers)
  late=$?
  set -- $got
  case $#$1 in
    5[0-9]*) now=$1 mine=$2 keep=$3 stop=$4 end=$5 looks=1 ;;
    *)
      now=$((now + 1)) mine=- keep=- looks=1
      [ "$late" != ${LATE} ] || now=$((now + ${LOOK_SECONDS + 1})) looks=${(LOOK_SECONDS + 2) / 2}
      ;;
  esac
}
# A shell that gives up, as dash does where no process can be started, begins again where it was, after a pause for which it starts no process.
again() {
  read -r up rest </proc/uptime
  from=\${up%%.*}
  while [ "\${up%%.*}" -lt $((from + 2)) ] && read -r up rest </proc/uptime; do :; done
  # It asks again where the run may not have been asked; the end of its grace stays.
  [ "$tries" -gt 0 ] || asked=
  exec sh "$dir/guard.sh" "$dir" "$now" "$stop" "$end" "$((strange + 1))" "$tries" "$asked" "$patience" "$by"
}
now=\${2:-0} stop=\${3:--} end=\${4:--} strange=\${5:-0} tries=\${6:-0} asked=\${7-} patience=\${8-} by=\${9-} told=
trap 'again' EXIT
# bash would begin again at the TERM of a system that powers off.
trap 'trap - EXIT; exit 143' TERM
# On a disk that takes nothing, the file still names an earlier guard.
named=
(echo $$ >"$dir/pid") && named=1
(echo -900 >/proc/$$/oom_score_adj) 2>/dev/null
machine=$(within ${LOOK_SECONDS} variables)
spent() { [ "$end" != - ] && [ "$now" -ge "$end" ]; }
# Whether a runner is left, by its number in \`found\`. A look that took too long does not know: then one may be.
may_run() {
  found=$(within ${LOOK_SECONDS} runners)
  late=$?
  [ -n "$found" ] || [ "$late" = ${LATE} ]
}
while :; do
  sleep 1
  look
  # A later guard has taken over.
  [ -z "$named" ] || [ "$mine" = - ] || [ "$mine" = $$ ] || { trap - EXIT; exit 0; }
  if spent; then
    note "the budget is spent, ending this machine"
    patience=1
    try_to_end
    continue
  fi
  if [ "$stop" != - ] && [ "$now" -ge "$stop" ]; then
    found=$(within ${LOOK_SECONDS} runners)
    [ "$told" = "$found" ] || [ -z "$found" ] || { note "the budget ends, asking the run to end"; kill -TERM $found 2>/dev/null; told=$found; }
  fi
  case $keep in
    -) strange=$((strange + looks)); [ "$strange" -gt ${STRANGE_LOOKS} ] || continue ;;
    *) strange=0; [ "$now" -ge "$keep" ] || { asked= tries=0 by=; continue; } ;;
  esac
  if [ -z "$asked" ]; then
    asked=1
    if may_run; then
      [ -n "$by" ] || by=$((now + ${stop}))
      if [ "$now" -lt "$by" ]; then
        # It asks once it knows whom.
        [ -n "$found" ] || { asked=; continue; }
        note "nobody came, asking the run to end"
        kill -TERM $found 2>/dev/null
        while [ "$now" -lt "$by" ] && may_run && ! spent; do look; done
        continue
      fi
    fi
  fi
  note "nobody came, ending this machine"
  try_to_end
done
SVC_GUARD
then mv -f "$dir/guard.sh.new" "$dir/guard.sh"; fi
[ -s "$dir/guard.sh" ] || exit 1
read -r up rest </proc/uptime
until=$((\${up%%.*} + ${firstContactSeconds(guard.graceSeconds)}))
if echo "$until" >"$dir/keep.new"; then mv -f "$dir/keep.new" "$dir/keep"; else echo "$until" >"$dir/keep"; fi
chmod 666 "$dir/keep"${limitAtStart(guard.limit)}
[ -e "$dir/limit" ] || : >"$dir/limit"
chmod 666 "$dir/limit"
if command -v setsid >/dev/null 2>&1; then
  setsid sh "$dir/guard.sh" "$dir" </dev/null >/dev/null 2>&1 &
else
  nohup sh "$dir/guard.sh" "$dir" </dev/null >/dev/null 2>&1 &
fi
`;
}
