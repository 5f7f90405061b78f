// Deliberate defects in the programs that run on a rented machine: the guard that ends it, the runner of its script, and the agent that
// answers svc there. Each is named by the rule of docs/internals/guard.md or of the program's docstring, and has the tests that must notice it.

import { single, type TestedMutant } from "./mutants.ts";

const GUARD = "test/ssh/guard.test.ts > ";
const HANGS = "test/ssh/guard-hangs.test.ts > ";
const PROGRAM = "test/runner/run.test.ts > ";
const REUSED = "test/runner/stop.test.ts > leaves a process alone that reused a number";
const guard = single("guard", "src/domain/guard-script.ts", []);
const guardKeep = single("guard", "runner/svc_agent/guard.py", []);
const keeper = single("guard", "runner/svc_runner/keeper.py", []);
const run = single("runner", "runner/svc_runner/run.py", []);
const commands = single("runner", "runner/svc_runner/commands.py", []);
const processes = single("runner", "runner/svc_runner/processes.py", []);
const spool = single("runner", "runner/svc_runner/spool.py", []);
const leftBehind = single("runner", "runner/svc_runner/left_behind.py", []);
const localRuns = single("local runs", "src/providers/local/local-runs.ts", []);
const script = single("runner", "runner/svc_runner/script.py", []);
const calls = single("agent", "runner/svc_agent/runner_calls.py", []);
const bytes = single("agent", "runner/svc_agent/checkpoint_bytes.py", []);
const folders = single("agent", "runner/svc_agent/checkpoints.py", []);
const trees = single("agent", "runner/svc_agent/trees.py", []);
const environment = single("agent", "runner/svc_agent/environment.py", []);

export const MACHINE_MUTANTS: readonly TestedMutant[] = [
  guard(
    "G1: the machine is ended once, and not again",
    'note "nobody came, ending this machine"\n  try_to_end',
    'note "nobody came, ending this machine"\n  try_to_end\n  trap - EXIT\n  exit 0',
    [`${GUARD}ends the machine when its time has passed, again and again, and not before (dash)`],
  ),
  guard(
    "G1: a time that cannot be read keeps the machine for ever",
    'strange=$((strange + looks)); [ "$strange" -gt ${STRANGE_LOOKS} ] || continue ;;',
    'strange=$((strange + looks)); [ "$strange" -gt 0${STRANGE_LOOKS}000 ] || continue ;;',
    [`${GUARD}treats "garbage" as a missing answer`],
  ),
  guard(
    "G1: an attempt that never returns is the last one",
    "wait_for $! ${TRY_SECONDS}",
    "wait_for $! ${TRY_SECONDS}000",
    [`${GUARD}tries again after an attempt that never returns`],
  ),
  guard("G1: a guard whose shell gives up is gone", "trap 'again' EXIT", "", [
    `${HANGS}begins again if its shell gives up`,
  ]),
  guard(
    "G1: a shell that begins again forgets for how long the time could not be read",
    "strange=\\${5:-0}",
    "strange=0",
    [`${HANGS}counts polls with an unreadable time on`],
  ),
  guard("G1: the name of an earlier guard ends the one on a disk that takes nothing", '[ -z "$named" ] ||', "", [
    `${HANGS}stays though the disk takes nothing`,
  ]),
  guard("G8: a read that never answers is waited for", 'kill -9 "$1" 2>/dev/null', 'wait "$1"', [
    `${HANGS}ends the machine though its \`keep\` never answers`,
  ]),
  guard(
    "G8: a budget's end that cannot be read any more does not count",
    "mine=- keep=- looks=",
    "mine=- keep=- end=- looks=",
    [`${HANGS}counts by itself if the clock never answers`],
  ),
  guard(
    "G8: the command lines of all processes are read",
    'case $comm in "$kind"*) ;; *) continue ;; esac',
    "case $comm in *) ;; esac",
    [`${HANGS}finds the runner behind processes`],
  ),
  guard(
    "G1: a look for which no process could be started counts as the time that it may take",
    '[ "$late" != ${LATE} ] || now',
    "[ 1 = 2 ] || now",
    [`${HANGS}counts a look for which no process`],
  ),
  guard("G6: a shell that begins again gives the run its whole grace again", '[ -n "$by" ] || by=', "by=", [
    `${HANGS}ends the machine after the grace of the run`,
  ]),
  guard("G6: a shell that begins again ends the machine without asking the run", '[ "$tries" -gt 0 ] || asked=', "", [
    `${HANGS}finds the runner again`,
  ]),
  guard(
    "G1: a time that cannot be read for a moment ends the machine",
    '[ "$strange" -gt ${STRANGE_LOOKS} ] || continue ;;\n    *) strange=0;',
    '[ "$strange" -gt ${STRANGE_LOOKS} ] || continue ;;\n    *)',
    [`${GUARD}tolerates a keep that was unreadable for a moment`],
  ),
  guard(
    "G2: a restart of the machine keeps a time of long ago",
    'if echo "$until" >"$dir/keep.new"; then mv',
    'if [ -e "$dir/keep" ]; then :; elif echo "$until" >"$dir/keep.new"; then mv',
    [`${GUARD}restarts with its container: one guard, one time, whatever was there`],
  ),
  guard(
    "G1: two guards of one machine run",
    '[ "$mine" = - ] || [ "$mine" = $$ ] || { trap - EXIT; exit 0; }',
    '[ "$mine" = - ] || [ "$mine" = $$ ] || true',
    [`${GUARD}restarts with its container: one guard, one time, whatever was there`],
  ),
  guard(
    "G2: other users of the machine cannot extend its time",
    'chmod 666 "$dir/keep"${limitAtStart(guard.limit)}',
    'chmod 644 "$dir/keep"${limitAtStart(guard.limit)}',
    [`${GUARD}lets every user of the machine extend its time, and only root change its text`],
  ),
  guardKeep(
    "G2: a contact moves the time back",
    "if not (old.isdigit() and len(old) <= 9 and int(old) >= until):",
    "if old != text.strip():",
    [`${GUARD}the control plane never moves it back`],
  ),
  keeper(
    "G2: the runner moves the time back",
    "if not (old.isdigit() and len(old) <= 9 and int(old) >= until):",
    "if old != text.strip():",
    [`${GUARD}the runner of a run that may be idle`],
  ),
  guardKeep(
    "G2: a guard that was killed is not started again",
    "return script in words[1:3] and start_time(int(pid)) is not None",
    'return folder != ""',
    [`${GUARD}the control plane, by every contact`],
  ),
  keeper(
    "G3: the runner keeps a machine whose run is idle",
    "if self.idle > 0 and now - self.worked_at > self.idle and",
    "if self.idle > 0 and now - self.worked_at > 1000 * self.idle and",
    [`${GUARD}the runner, while its run works`],
  ),
  keeper(
    "G3: a run that may be idle loses its machine",
    "if self.idle > 0 and now - self.worked_at",
    "if now - self.worked_at",
    [`${GUARD}the runner of a run that may be idle`],
  ),
  guard(
    "G5: the key is on a command line",
    `printf 'header = "Authorization: Bearer %s"\\\\n' "$SVC_KEY" |
      curl -fsS -m 30 -K - -X`,
    'curl -fsS -m 30 -H "Authorization: Bearer $SVC_KEY" -X',
    [`${GUARD}calls with a key that is on no command line, by curl`],
  ),
  guard("G6: a run is not asked to end", 'if [ -z "$asked" ]; then', 'if [ -n "$asked" ]; then', [
    `${GUARD}asks an active run to end, waits for it, and only then ends the machine`,
  ]),
  guard(
    "G6: the end of the run is not waited for",
    'while [ "$now" -lt "$by" ] && may_run',
    'while [ "$now" -lt 0 ] && may_run',
    [`${GUARD}asks an active run to end, waits for it, and only then ends the machine`],
  ),
  guard(
    "G6: a look that takes too long finds no run",
    '[ -n "$found" ] || [ "$late" = ${LATE} ]',
    '[ -n "$found" ] || [ "$late" = none ]',
    [`${GUARD}does not take a look that lasts too long for the end of the run`],
  ),
  guard(
    "G7: a spent budget waits for the time of the machine",
    "if spent; then",
    'if spent && [ "$now" -ge "$keep" ]; then',
    [`${GUARD}ends the machine when the budget is spent`],
  ),
  guard("G7: a restart gives the budget more time", '[ "$e" -ge "$end" ] || end=$e ;;', ": ;;", [
    `${GUARD}counts the time before its first start`,
  ]),
  guard(
    "G7: the time before the machine's start is free",
    '[ "$age" -ge 0 ] && [ "$age" -le "$most" ] || age=0',
    "age=0",
    [`${GUARD}counts the time before its first start`],
  ),
  guard(
    "G7: the run is not asked to end before the budget does",
    'if [ "$stop" != - ] && [ "$now" -ge "$stop" ]; then',
    'if [ "$stop" != - ] && [ "$now" -ge "$stop" ] && spent; then',
    [`${GUARD}asks the run to end at`],
  ),
  guard(
    "G7: the deadline of the stop ends the machine",
    'spent() { [ "$end" != - ] && [ "$now" -ge "$end" ]; }',
    'spent() { [ "$stop" != - ] && [ "$now" -ge "$stop" ]; }',
    [`${GUARD}asks the run to end at`],
  ),
  guard("G7: a machine that cannot be deleted is not stopped sooner", "patience=1\n    try_to_end", "try_to_end", [
    `${GUARD}tells each attempt`,
  ]),
  guardKeep(
    "G7: a guard that reads no deadline counts for a run with a budget",
    "return guard_lives(folder) and (not",
    "return guard_lives(folder) or (not",
    [`${GUARD}the control plane replaces a guard of version 0.1`],
  ),
  commands(
    "R1: a repeated start of a run that has ended starts it again",
    'if status and status.get("nonce") == nonce:\n        unlink',
    'if status and status.get("nonce") == nonce and status.get("phase") == "running":\n        unlink',
    [`${PROGRAM}does not start a run that has ended`],
  ),
  commands(
    "R1: a run whose runner was killed is started again",
    'if status and status.get("nonce") == nonce:\n        unlink',
    'if status and status.get("nonce") == nonce and status.get("phase") != "running":\n        unlink',
    [`${PROGRAM}does not start a run whose runner was killed`],
  ),
  commands(
    "R1: a run that was stopped before its start is started",
    'if order and order.get("nonce") == nonce:',
    'if order and order.get("nonce") == nonce and "grace" not in order:',
    [`${PROGRAM}does not start a run that was ordered to stop`],
  ),
  commands(
    "R1: another run starts in the folder of an active one",
    "while not lock.take():\n        status = read",
    'while not lock.take() and nonce == (read_json("status.json") or {}).get("nonce"):\n        status = read',
    [`${PROGRAM}starts no other run while one is active`],
  ),
  spool("R2: a part of a write is dropped", "self.pending = self.pending[n:]", 'self.pending = b""', [
    "test/runner/spool.test.ts > passes 200 MB through a spool of 4 MiB",
  ]),
  spool(
    "R2: the script does not wait at the cap",
    "return self.cap + (ENDING_ROOM if ending else 0)",
    "return self.cap + ENDING_ROOM",
    ["test/runner/spool.test.ts > blocks the script at the cap until the log is acknowledged"],
  ),
  spool(
    "R2: output that nobody has downloaded is deleted",
    "if following <= self.acked:",
    "if following <= self.end:",
    ["test/runner/spool.test.ts > passes 200 MB through a spool of 4 MiB"],
  ),
  run(
    "R2: output that waits for a full disk is lost at the end",
    "while self.spool.pending:\n                time.sleep",
    "while self.spool.pending and self.reader is None:\n                time.sleep",
    ["test/runner/spool.test.ts > keeps the last output of a script that ends while its log waits for space"],
  ),
  run(
    "R3: the end is written while a daemon of the run lives",
    "if LINUX:\n            prctl(36, 1)",
    "if not LINUX:\n            prctl(36, 1)",
    ["test/runner/stop.test.ts > leaves no daemon"],
  ),
  run(
    "R3: a script that ignores TERM is not killed",
    "if not self.alone and now >= self.kill_at and",
    "if self.alone and now >= self.kill_at and",
    ["test/runner/stop.test.ts > kills a process that ignores TERM after the grace, and not before"],
  ),
  run("R3: a process that KILL does not end keeps the run", "if now >= self.unended_at:", "if now < self.kill_at:", [
    "test/runner/unended.test.ts > does not keep a finished run: its exit code",
  ]),
  run(
    "R3: a process that refuses signals has as much time as one that takes them",
    "self.unended_at = min(self.unended_at, now + REFUSED_SECONDS)",
    "pass",
    ["test/runner/unended.test.ts > delays a stop by a bounded time"],
  ),
  run(
    "R3: the pipes of a run that has ended are read for as long as someone writes",
    "REST[fd] = bytes_in(fd)",
    "REST[fd] = 1 << 62",
    ["test/runner/unended.test.ts > does not keep it by writing without end"],
  ),
  commands(
    "R3: a stop fails as long as a process is there that KILL does not end",
    "0 if recorded else 1)",
    "1 if left or not recorded else 0)",
    ["test/runner/unended.test.ts > is named by the stop that could not end it"],
  ),
  leftBehind(
    "R3: each sweep waits again for a process that KILL did not end",
    "if (p.pid, p.start) not in unendable]",
    "if (p.pid, -p.start) not in unendable]",
    ["test/runner/unended.test.ts > does not keep a finished run, nor what ends"],
  ),
  localRuns(
    "a process that KILL did not end keeps a run of this computer",
    "return pids.filter((pid) => !left.has(pid) ||",
    "return pids.filter((pid) => left.size >= 0 ||",
    ["test/runner/unended.test.ts > does not keep a finished run, nor what ends"],
  ),
  run("R3: a script is killed before its grace", "self.kill_at = now + max(0.0, grace)", "self.kill_at = now", [
    "test/runner/stop.test.ts > kills a process that ignores TERM after the grace, and not before",
  ]),
  leftBehind(
    "R4: the processes of a killed runner are not found by their mark",
    "hit = any(m in names for m in marks)",
    "hit = any(m in names for m in marks[1:])",
    ["test/runner/stop.test.ts > ends its script with it, is reported as lost"],
  ),
  leftBehind(
    "R4: processes that wiped their environment stay",
    "hit = (p.pid, p.start) in known",
    "hit = (p.pid, -p.start) in known",
    ["test/runner/stop.test.ts > is swept also of processes that wiped their environment"],
  ),
  processes(
    "R4: a process that reused a number after it was looked at is signalled",
    "if LINUX and start_time(p.pid) != p.start:\n            return True",
    "",
    [REUSED],
  ),
  commands(
    "R4: a process that reused the runner's number is signalled",
    'if runner and (not LINUX or runner.start == status.get("runner_start")):',
    "if runner:",
    [REUSED],
  ),
  script("R3: a script outlives its killed runner", "prctl(1, signal.SIGKILL)", "prctl(1, 0)", [
    "test/runner/stop.test.ts > ends its script with it, is reported as lost",
  ]),

  calls(
    "A1: a second run starts on a machine whose run is active",
    'if before is not None and before.get("phase") == "running" and not same:',
    'if before is not None and before.get("phase") == "starting" and not same:',
    ["test/ssh/remote-host.test.ts > reports the same nonce instead of starting it twice"],
  ),
  calls(
    "A1: secrets are deleted under a launcher that is late",
    "raise  # the runner unlinks",
    "unlink(secrets)\n            raise  # the runner unlinks",
    ["test/ssh/agent.test.ts > keeps a run's secrets if its start got no answer"],
  ),
  calls(
    "A1: a runner is kept under the digest of another text",
    'if hashlib.sha256(body).hexdigest() != ask["digest"]:',
    'if len(hashlib.sha256(body).hexdigest()) != len(ask["digest"]):',
    ["test/ssh/agent.test.ts > keeps a runner only under its own digest"],
  ),
  folders(
    "A3: a folder that is a symlink is followed",
    "FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW |",
    "FOLDER = os.O_RDONLY | os.O_DIRECTORY |",
    ["test/ssh/remote-host.test.ts > are refused as a whole if a symlink replaced their folder"],
  ),
  bytes(
    "A3: a checkpoint that is a symlink is read",
    "os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK",
    "os.O_RDONLY | os.O_NONBLOCK",
    ["test/ssh/checkpoint-bytes.test.ts"],
  ),
  bytes(
    "A4: a file that changed while it was read counts",
    "answer = read(fd)\n            check_unchanged(fd, ask)",
    "answer = read(fd)",
    ["test/ssh/checkpoint-bytes.test.ts"],
  ),
  bytes(
    "A4: another version of a listed file is sent",
    "if not stat.S_ISREG(s.st_mode) or numbers_of(s) !=",
    "if not stat.S_ISREG(s.st_mode) and numbers_of(s) !=",
    ["test/ssh/remote-host.test.ts > are downloaded as they were listed, or not at all"],
  ),
  trees(
    "A1: folders outside those of svc are removed",
    "if os.path.normpath(path) != path or not path.startswith(root):",
    "if os.path.normpath(path) != path:",
    ["test/ssh/agent.test.ts > makes and removes folders of machines only"],
  ),
  environment(
    "A1: a run gets the keys that rent machines",
    'return name.startswith(DROPPED) or (name.endswith("_API_KEY") and name[:-8] in PROVIDERS)',
    "return name.startswith(DROPPED)",
    ["test/ssh/agent.test.ts > gives a run the container's variables, but none that can rent machines"],
  ),
];
