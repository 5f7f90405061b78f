// Deliberate defects in what faces people and programs: the SDK, the HTTP API, the command line and the dashboard.
// Each is named by the head that states its invariant, and has the tests that must notice it.

import { single, type TestedMutant } from "./mutants.ts";

const CLIENT = "test/sdk/client.test.ts > ";
const SDK_LOG = ["test/sdk/log.test.ts"];
const SDK_RUN = "test/sdk/run.test.ts > ";
const BOTH_SDKS = "test/e2e/sdks.test.ts > ";
const EVENTS = "test/api/events.test.ts > ";
const ARGV = ["test/cli/argv.test.ts"];
const DEMO = "test/cli/demo.test.ts > ";
const DUMP = ["test/cli/debug-dump.test.ts > The archive explains the whole run"];
const client = single("client", "sdk/client.ts", []);
const command = single("command", "sdk/command.ts", []);
const configure = single("configure", "sdk/configure.ts", ["test/sdk/configure.test.ts"]);
const planes = single("control planes", "sdk/control-planes.ts", []);
const discover = single("discover", "sdk/discover.ts", ["test/sdk/discover.test.ts"]);
const log = single("log", "sdk/log.ts", SDK_LOG);
const events = single("event stream", "src/api/event-stream.ts", []);
const holds = single("holds", "src/api/holds.ts", ["test/api/holds.test.ts"]);
const logIndex = single("log index", "src/api/log-index.ts", ["test/api/log-lines.test.ts"]);
const archives = single("archives", "src/api/routes/archives.ts", ["test/api/archives.test.ts > contain every"]);
const code = single("code", "src/api/routes/code.ts", ["test/api/code.test.ts"]);
const argv = single("argv", "src/cli/argv.ts", ARGV);
const serve = single("serve", "src/cli/commands/serve/serve-until-end.ts", []);
const demo = single("demo", "src/cli/demo.ts", []);

export const FACING_MUTANTS: readonly TestedMutant[] = [
  client("W1: a redirect is followed", 'redirect: "error",', 'redirect: "follow",', [
    `${CLIENT}a redirect is not followed`,
  ]),
  client("W1: an answer of any size is read", "if (size > max) {", "if (size > 1_000 * max) {", [
    `${CLIENT}an answer is limited after decompression`,
  ]),
  {
    name: "client W2: a repeated submission has another key",
    patches: [
      {
        file: "sdk/run.ts",
        find: "client.submit(body, once)",
        replace: "client.submit(body, key ?? `ts-${randomUUID()}`)",
      },
    ],
    rules: ["sdk/client.ts W2"],
    tests: [`${CLIENT}a submission whose answer was lost`],
  },
  {
    name: "command Q1: reading a run starts a control plane",
    patches: [
      {
        file: "sdk/runs.ts",
        find: 'return (await isThere(ownHome())) ? driven(jobId) : only(jobId, await asked(ownHome(), ["jobs", "--", jobId]));',
        replace: "return driven(jobId);",
      },
    ],
    rules: ["sdk/command.ts Q1"],
    tests: [`${BOTH_SDKS}a caller that only reads after a crash`],
  },
  {
    name: "command Q2: one kill starts a control plane, which resumes the other runs and ends them",
    patches: [
      {
        file: "sdk/runs.ts",
        find: 'return only(jobId, await asked(ownHome(), ["kill", "--", jobId]));',
        replace: "return call((client) => client.kill(jobId));",
      },
    ],
    rules: ["sdk/command.ts Q2"],
    tests: [`${BOTH_SDKS}a caller that only reads after a crash`],
  },
  command("Q3: a refusal names the flags of the command", 'if (told.code === "usage") [', 'if (told.code === "") [', [
    "test/sdk/arguments.test.ts > a refusal names the caller's arguments",
  ]),
  configure(
    "G1: a missing variable is not reported",
    "if (required && values[at] === null)",
    'if (required && at === "")',
  ),
  configure(
    "G1: a secret in place of its reference is accepted",
    "reference(`${at}.secret_ref`, credential.secret_ref);",
    "",
  ),
  configure(
    "G2: the registry is sent with each call",
    "if (body === null || told.get(home) === body) return;",
    "if (body === null) return;",
  ),
  planes("P1: a caller does not hold the control plane", "holds.get(home)?.close();", "hold.close();", [
    `${SDK_RUN}a control plane runs as long as any of its callers`,
  ]),
  planes("P2: Ctrl-C in the terminal reaches the control plane", "detached: true,", "detached: false,", [
    `${SDK_RUN}A second Ctrl-C in the terminal`,
  ]),
  planes(
    "P3: this process ends without waiting for its control plane",
    "if (holds.size + owned.size > 0) void letGoOfAll();",
    "if (holds.size + owned.size > 99) void letGoOfAll();",
    [`${SDK_RUN}a script that ends during a run`],
  ),
  discover(
    "F1: the control plane of another home answers",
    "&& samePath(health.home, home)",
    "&& health.home !== file.url",
  ),
  discover(
    "F1: another installation at that port answers",
    "const same = health.installation_id === file.installation_id &&",
    "const same = health.installation_id !== file.url &&",
  ),
  discover(
    "F1: a link in place of the file is followed",
    "constants.O_RDONLY | constants.O_NOFOLLOW |",
    "constants.O_RDONLY |",
  ),
  discover("F2: a name is connected to", "const ADDRESS = /^http:\\/\\/(", "const ADDRESS = /^http:\\/\\/(localhost|"),
  log("L1: log throws", 'warn("", `the call was skipped: ${e instanceof Error ? e.message : String(e)}`);', "throw e;"),
  log(
    "L1: a value that cannot be recorded is reported each time",
    "if (warned.has(about) || warned.size > 1_000) return;",
    "if (warned.size > 1_000) return;",
  ),
  log("L2: a record is as long as its values", "const LINE_BYTES_MAX = 4096;", "const LINE_BYTES_MAX = 1 << 20;"),
  log(
    "L3: records go to stdout although there is a pipe",
    'const path = process.env["SVC_RECORDS"] ?? "";',
    'const path: string = "";',
    ["test/runner/records.test.ts > are stored once for a Node.js script"],
  ),
  {
    name: "log L4: the mark is the same for each run",
    patches: [
      {
        file: "src/steps/launch/run-secrets.ts",
        find: 'mark = (jobId: string): string => this.#derive("mark", jobId).slice(0, 24);',
        replace: 'mark = (jobId: string): string => "0".repeat(jobId === "" ? 0 : 24);',
      },
    ],
    rules: ["sdk/log.ts L4"],
    tests: ["test/security/runs.test.ts > accepts no forged record"],
  },
  events("E1: an event that was replayed is sent again", "if (event.seq <= this.#cursor) return;", "", [
    `${EVENTS}neither loses nor repeats an event`,
  ]),
  events(
    "E1: a turn passes between the last read and going live",
    'if (batch.length === 0) {\n        this.#phase = "live";',
    'if (batch.length === 0) {\n        await new Promise((resolve) => setImmediate(resolve));\n        this.#phase = "live";',
    [`${EVENTS}replays and continues live without gap`],
  ),
  events(
    "E2: a live reader may leave any amount unread",
    "if (this.#socket.bufferedAmount > this.#limits.socketBufferBytesMax)",
    "if (this.#socket.bufferedAmount > 1_000 * this.#limits.socketBufferBytesMax)",
    [`${EVENTS}closes a slow reader with 1013`],
  ),
  events(
    "E3: hints are sent to a reader that is behind",
    "if (this.#socket.bufferedAmount < HINT_BUFFER_BYTES_MAX) this.#send(event);",
    "if (this.#socket.bufferedAmount < 9_999 * HINT_BUFFER_BYTES_MAX) this.#send(event);",
    [`${EVENTS}drops hints of a reader that is behind`],
  ),
  single("gate", "src/api/gate.ts", ["test/api/gate.test.ts > demands the token"])(
    "G6: a caller whom no rule admits is let in",
    '? { kind: "admitted", self } : refused(new SvcError("unauthorized", {}));',
    '? { kind: "admitted", self } : { kind: "admitted", self };',
  ),
  holds(
    "H1: a caller that has ended still holds it",
    "this.#listening.delete(response);\n      this.#held.delete(id);",
    "this.#listening.delete(response);",
  ),
  holds("H2: it ends while its starter runs", "this.#ending || this.#starter ||", "this.#ending ||"),
  holds(
    "H2: it grants a hold while it ends",
    'if (this.#ending) throw new SvcError("shutting_down", {});',
    'if (this.#ending && this.#held.size > 99) throw new SvcError("shutting_down", {});',
  ),
  holds(
    "H3: a caller that released its hold is not told how it ended",
    "for (const response of this.#listening) response.end(",
    "for (const response of this.#listening) if (this.#held.size > 0) response.end(",
  ),
  holds(
    "H4: one that its owner started ends with its holders",
    "if (!this.endsWithHolders || this.#ending",
    "if (this.#ending",
  ),
  logIndex(
    "X1: a log is counted from its beginning each time",
    "const known = this.#jobs.get(id) ?? {",
    "const known = {",
  ),
  logIndex(
    "X1: a log that was not read lately stays in the index",
    "if (this.#jobs.size > JOBS_MAX && oldest !== undefined)",
    "if (this.#jobs.size > 99 * JOBS_MAX && oldest !== undefined)",
  ),
  logIndex("X2: a log is scanned without a break", "if (marks.scanned < bytes) await turn();", ""),
  logIndex("X2: lines are read without a break", "if (at < end) await turn();", ""),
  logIndex(
    "X3: a line of any length is held in memory",
    "(written >= 0 ? all.subarray(written + 1) : all).subarray(0, HEAD_BYTES)",
    "written >= 0 ? all.subarray(written + 1) : all",
  ),
  {
    name: "peer U1: the user is looked up at the request and not at accept",
    patches: [
      {
        file: "src/api/gate.ts",
        find: 'if (this.#peers.get(request.socket) === "owner") return true;',
        replace: "if (this.#loopback && uidOf(request.socket) === process.getuid?.()) return true;",
      },
    ],
    rules: ["src/api/peer.ts U1"],
    tests: ["test/api/gate.test.ts > knows the user of a connection"],
  },
  single("peer", "src/api/peer.ts", ["test/api/gate.test.ts > reads the uid of a connection"])(
    "U3: only the table of IPv4 is read",
    '["/proc/net/tcp6", 16],',
    "",
  ),
  archives(
    "A1: a checkpoint is opened by its path, through a symlink",
    "open: () => openCheckpoint(call, id, path),",
    'open: async () => (await import("node:fs/promises")).open(`${call.cp.home}/artifacts/${id}/checkpoints/${path}`),',
  ),
  archives(
    "A2: half an archive ends like a whole one",
    "await pipeline(Readable.from(tarOfOpened(members), { objectMode: false }), response);\n  } catch {\n    response.destroy();",
    "for await (const part of tarOfOpened(members)) response.write(part);\n    response.end();\n  } catch {\n    response.end();",
  ),
  {
    name: "code K1: a path in any case of letters finds a file",
    patches: [
      {
        file: "src/api/routes/code.ts",
        find: "const found = snapshot.files.some((f) => f.path === path);",
        replace: "const found = snapshot.files.find((f) => f.path.toLowerCase() === path.toLowerCase());",
      },
      {
        file: "src/api/routes/code.ts",
        find: "const entry = fileIn(snapshot, path);",
        replace: "const entry = fileIn(snapshot, found.path);",
      },
    ],
    tests: ["test/api/code.test.ts > finds no file under"],
  },
  code("K2: text is rendered", '? "text/plain; charset=utf-8"', '? "text/html; charset=utf-8"'),
  code(
    "K3: another directory than the recorded one is read",
    'const directory = job.spec["project_dir"];',
    "const directory: unknown = process.cwd();",
  ),
  argv(
    "V1: an unknown flag is ignored",
    "if (!option) {\n      const all",
    'if (!option) {\n      if (f.name !== "") continue;\n      const all',
  ),
  argv("V1: the nearest command is not named", "const near = nearest(commandName, known);", "const near = null;"),
  argv(
    "V2: a value loses its leading zeros",
    "values.set(key, [...(before ?? []), f.value]);",
    'values.set(key, [...(before ?? []), f.value.replace(/^0+(?=\\d)/, "")]);',
  ),
  argv(
    "V3: a flag may be given twice",
    "if (before && !option.config.type) throw",
    'if (before && f.typed === "") throw',
  ),
  argv("V3: a word after -- is a flag", "dashed.push(...words.slice(i + 1));\n      break;", "continue;"),
  single("debug dump", "src/cli/commands/debug-dump/contents.ts", DUMP)(
    "D1: the settings are taken as they are",
    "secrets.redactText(tailOfFile(homeLayout.settings(io.home())))",
    "tailOfFile(homeLayout.settings(io.home()))",
  ),
  single("debug dump", "src/cli/commands/debug-dump/contents.ts", DUMP)(
    "D2: variables are taken with their values",
    "Object.keys(io.env)",
    "Object.entries(io.env)\n    .map(([name, value]) => (/^SVC_/.test(name) ? name : `SVC_${name}=${String(value)}`))",
  ),
  serve(
    "S1: the second signal does not say what is left",
    "io.err(`Ending now. ${leftOver(cp)}`);",
    'io.err("Ending now.");',
    ["test/process/signals.test.ts > a second signal ends the process"],
  ),
  serve(
    "S2: it ends with its starter",
    "watchStdin(() => holds.starterGone());",
    'watchStdin(() => ending.resolve("eof"));',
    [`${SDK_RUN}a control plane runs as long as any of its callers`],
  ),
  serve("S3: its file stays when it has ended", "removeOwn(path);", "void removeOwn;", [
    `${SDK_RUN}a script that ends during a run`,
  ]),
  serve(
    "S3: it removes the file of another one",
    ".pid === process.pid) unlinkSync(path);",
    ".pid > 0) unlinkSync(path);",
    ["test/process/signals.test.ts > the file of another control plane"],
  ),
  demo("D1: the demo leaves its control plane running", "await end(server);", "void server;", [`${DEMO}Ctrl-C ends`]),
  demo(
    "D2: the demo succeeds although its run did not",
    'if (over.status === "succeeded") return 0;',
    "if (over.cost_usd !== null) return 0;",
    [`${DEMO}A run that does not succeed`],
  ),
  demo("D3: the accuracy is invented", "${percent(accuracy.value)} of the test images", "97.4 % of the test images", [
    `${DEMO}It shows what the API`,
  ]),
];
