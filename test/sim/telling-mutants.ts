// Deliberate defects in what leaves this computer: messages to the owner, and copies of checkpoints and logs in the owner's own stores.
// Each is named by the head that states its invariant, and has the tests that must notice it.

import { single, type TestedMutant } from "./mutants.ts";

const NOTIFIER = ["test/notify/notifier.test.ts"];
const RECEIVERS = ["test/notify/receivers.test.ts"];
const SINKS = "test/sinks/sinks.whole.test.ts > ";
const outbox = single("outbox", "src/notify/outbox.ts", NOTIFIER);
const notifier = single("notifier", "src/notify/notifier.ts", NOTIFIER);
const email = single("email", "src/notify/email.ts", RECEIVERS);
const local = single("local kinds", "src/notify/local-kinds.ts", RECEIVERS);
const message = single("message", "src/notify/message.ts", NOTIFIER);
const watch = single("watch", "src/notify/watch.ts", ["test/notify/watch.test.ts"]);
const copier = single("sink copier", "src/sinks/copier.ts", []);
const sinks = single("sinks", "src/sinks/sinks.ts", []);
const s3 = single("S3 store", "src/sinks/s3-store.ts", []);
const gcs = single("GCS store", "src/sinks/gcs-store.ts", []);

export const TELLING_MUTANTS: readonly TestedMutant[] = [
  outbox(
    "O1: a message is sent before its notice is durable",
    "if (added) tx.after(this.#wake);",
    "if (added) this.#wake();",
  ),
  outbox(
    "O3: a notice with a key is recorded again",
    "key: key ?? null,",
    "key: key === undefined ? null : `${key}${Math.random()}`,",
  ),
  notifier(
    "N1: one message at a time, for all targets",
    "for (const name of asked) this.#ask(name);",
    "const [one] = asked;\n    if (one !== undefined) this.#ask(one);",
  ),
  notifier(
    "N2: a message that was not answered is not sent again",
    'const over = error.code === "notify_refused" ||',
    "const over = error.code.length > 0 ||",
  ),
  notifier(
    "N3: a refused message is sent again and again",
    'const over = error.code === "notify_refused" || now',
    "const over = now",
  ),
  notifier(
    "N3: a failing message is never given up",
    "now - row.created_at > GIVE_UP_MS;",
    "now - row.created_at > 100 * GIVE_UP_MS;",
  ),
  notifier(
    "N3: the delay that a target asks for does not count",
    "return error instanceof RetryAfter ? Math.max(grown, error.delayMs) : grown;",
    "return grown;",
  ),
  notifier(
    "N4: a flood is sent message by message",
    "open.length > 1 && (late || open.length > room.left)",
    "open.length > 1 && late",
  ),
  notifier(
    "N4: what waited behind a failing target is sent as it was",
    "open.length > 1 && (late || open.length > room.left)",
    "open.length > 1 && open.length > room.left",
  ),
  email(
    "M1: a letter leaves without TLS",
    "requireTLS: port !== 465 && isPublicAddress(pinned.address),",
    "requireTLS: false,",
    ["test/notify/email-tls.test.ts"],
  ),
  email(
    "M1: a server of another name is believed",
    "...(isIP(host) ? {} : { servername: host }), minVersion",
    "rejectUnauthorized: false, minVersion",
  ),
  email(
    "M2: an attempt does not end by its signal",
    "if (signal.aborted) stop();\n    signal.addEventListener",
    "if (signal.aborted) stop();\n    over.signal.addEventListener",
  ),
  local(
    "C2: a command gets the secrets of the environment",
    "const child = spawn(program, args, { env, stdio",
    "const child = spawn(program, args, { env: { ...context.env, ...env }, stdio",
  ),
  local("C2: a command reads no message", "child.stdin.end(input);", 'child.stdin.end("");'),
  local("C3: what a command started outlives it", "process.kill(-pid,", "process.kill(pid,"),
  local(
    "C4: the arguments of the desktop's program hold the log",
    "textOfMessage({ ...message, log: [] })",
    "textOfMessage({ ...message, log: message.log })",
  ),
  local(
    "C4: a title is an option of the desktop's program",
    '"--app-name=svc", "--", title',
    '"--app-name=svc", title',
  ),
  message("W2: a message holds a secret", "redactor().redactValue(message);", "message;\n  void redactor;", [
    "test/notify/alert.test.ts",
  ]),
  message(
    "W1: a message names no cost",
    'facts.push({\n    name: "Cost",',
    'if (record.nodes < 0) facts.push({\n    name: "Cost",',
  ),
  message("W3: a message has no bound", "return shown.length > max ?", "return shown.length > 1e9 * max ?"),
  message("W4: a text of a run looks like a line of svc", '${value.replaceAll("\\n", "\\n  ")}', "${value}", RECEIVERS),
  watch(
    "K1: a machine is reported at once",
    "if (now - since < (isOver || isDoubtful ? GRACE_MS : RELEASING_MS)) continue;",
    "",
  ),
  watch(
    "K1: a machine is reported once, and never again",
    "if (at !== null && now - at < (REPEATS_MS[n - 1] ?? REPEAT_MS)) continue;",
    "if (at !== null) continue;",
  ),
  watch(
    "K1: the end of a reported machine is not reported",
    "for (const { name, provider, proof } of this.#o.rows.closed())",
    "for (const { name, provider, proof } of this.#o.rows.closed().slice(1e9))",
  ),
  watch("K2: a rule reports each value", "cause, key }, rule);\n        }", "cause }, rule);\n        }"),
  watch(
    "K2: a run that waits again is not reported again",
    "const since = this.#o.closedAt(id) ?? created_at;",
    "const since = created_at;",
  ),
  watch(
    "K3: a rule with `stop` ends nothing",
    "rule?.stop !== true || notice.job_id === null",
    "rule?.stop !== false || notice.job_id === null",
  ),
  watch(
    "K4: the rules of one run are those of all",
    "parsed(this.#o.ownOf(jobId));",
    "parsed([...this.#o.liveJobs()].flatMap(({ id }) => this.#o.ownOf(id)));",
  ),
  watch(
    "K5: a rule counts time in which this computer slept or svc did not run",
    "(isEarly(this.#looks.first) || ",
    "(",
  ),
  watch(
    "K5: a rule counts time in which the machine could not be reached",
    " || isEarly(this.#followedSince(id)))",
    ")",
  ),
  copier("C2: an upload of other content goes on", "if (left?.sha256 === sha256) return", "if (left) return", [
    `${SINKS}resumes no upload of other content`,
  ]),
  copier(
    "C2: an upload that was interrupted begins again",
    "if (left?.sha256 === sha256) return { resume: this.#unsealed(left.resume), mayBeThere: true };",
    "",
    [`${SINKS}resumes an interrupted upload, if the store still has it`],
  ),
  copier(
    "C2: an upload whose file is gone stays at the store",
    "if (left) await store.abandon(",
    "if (left && path === MANIFEST) await store.abandon(",
    [`${SINKS}ends an upload whose file was replaced meanwhile`],
  ),
  copier(
    "C4: the list names a run as complete whose files are missing",
    "await this.#writeList(store, { complete: over && !left, signal });",
    "await this.#writeList(store, { complete: over || !left, signal });",
    [`${SINKS}copies checkpoints and the log while the run is active`],
  ),
  copier(
    "C5: a file that fails ends the pass",
    "if (failures.some((e) => STORES_OWN.has(e.code)) || how.signal.aborted) return;",
    "if (failures.length > 0 || how.signal.aborted) return;",
    [`${SINKS}copies the others at once, if one file cannot be read`],
  ),
  sinks(
    "L2: copies of an ended run are tried for ever",
    "if (this.#isOver(key, row, now)) {",
    "if (this.#isOver(key, row, now) && row.failures < 0) {",
    [`${SINKS}retries for ever while the run is active`],
  ),
  sinks(
    "L2: a request does not resume copies that were given up",
    'else if (row.state !== "done") this.#run(row);',
    'else if (row.state === "open") this.#run(row);',
    [`${SINKS}retries for ever while the run is active`],
  ),
  sinks(
    "L3: a new control plane does not continue",
    "for (const key of this.#o.rows.open()) {",
    "for (const key of this.#o.rows.open().slice(1e9)) {",
    [`${SINKS}copies the rest of an ended run when another control plane starts`],
  ),
  gcs(
    "G3: a session begins again at its start",
    "if (at === null) {\n      session",
    'if (at === null || at === 0 || typeof at === "number") {\n      session',
    [`${SINKS}resumes an interrupted upload`],
  ),
  s3(
    "B2: what the store has is believed",
    "if (read.size === file.size && read.sha256 === file.sha256) return;",
    "if (read.size >= 0) return;",
    [`${SINKS}has every file in the end although the store keeps something else`],
  ),
  s3(
    "B3: wrong parts of an upload stay",
    'if (md5Of(ETag) === file.partMd5s[PartNumber - 1]?.toString("hex")) etags.set',
    "etags.set",
    [`${SINKS}keeps no wrong part of an upload`],
  ),
  s3(
    "B4: an upload whose name was lost is begun again",
    "const left = turn.resume ?? (await this.#unfinished(file.key, signal));",
    "const left = turn.resume ?? null;",
    [`${SINKS}goes on with an upload whose name was lost`],
  ),
];
