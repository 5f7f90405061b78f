// Deliberate defects in the providers: what they promise to the rest of svc, and what each of them states for itself. Each is named by the
// head that states its invariant, and has the tests that must notice it.

import { forRule, single, type TestedMutant } from "./mutants.ts";

const CELL = "test/providers/notebook-bootstrap.whole.test.ts > ";
const SPOOL = "test/runner/spool.test.ts > re-attaches to a running run by its folder alone";
const APIS = "test/providers/podhost-apis.test.ts > ";
const REFUSED = "test/providers/podhost-refused.test.ts > ";
const CLOUDVM = "test/providers/cloudvm.test.ts > keeps to the project and zone of the machine";
const JOINED = "test/providers/market-joint.test.ts > ";
const MACHINES = "test/providers/market-machines.test.ts > ";
const OUTAGES = "test/providers/market-outages.test.ts > ";
const MADE = "test/providers/market.test.ts > labels the machine, gives it no secret";
const cloudvm = single("cloudvm", "src/providers/cloudvm/provider.ts", [CLOUDVM]);
const commands = single("host", "runner/svc_runner/commands.py", []);
const localHost = single("host", "src/providers/local/local-host.ts", [SPOOL]);
const spool = single("host", "src/providers/local/spool-reader.ts", [SPOOL]);
const client = single("market client", "src/providers/market/client.ts", []);
const joint = single("joint search", "src/providers/market/joint-search.ts", []);
const market = single("market", "src/providers/market/provider.ts", []);
const shared = single("shared look", "src/providers/market/shared-look.ts", []);
const cell = single("notebook cell", "src/providers/notebook/cell.ts", []);
const notebook = single("notebook", "src/providers/notebook/provider.ts", []);
const pasted = single("notebook", "src/providers/notebook/endpoint.ts", []);
const podhost = single("podhost", "src/providers/podhost/provider.ts", []);
const endpoint = single("provider", "src/domain/endpoint.ts", []);
const contract = "src/providers/provider.ts";

export const PROVIDER_MUTANTS: readonly TestedMutant[] = [
  forRule(
    `${contract} P1`,
    market(
      "P1: a create call whose answer was lost counts as one that was not sent",
      'throw outcomeOfCreate(e, "market", `rent offer ${offerId}`);',
      "throw e;",
      [`${OUTAGES}during an order or a termination is left to the caller`],
    ),
  ),
  forRule(
    `${contract} P2`,
    market(
      "P2: an incomplete listing counts as a whole one",
      'if (value.missing !== null) throw inPart(value.missing, owned, "anywhere");',
      "",
      ["test/providers/market-pages.test.ts > An incomplete listing proves the existence of its rows"],
    ),
  ),
  forRule(
    `${contract} P3`,
    client(
      "P3: an answer that is not clear proves the end",
      'if (isUnclearNotFound(answer, refusal)) return "unclear";',
      "if (isUnclearNotFound(answer, refusal)) return null;",
      [`${MACHINES}a second listing decides if its own address gives no clear answer`],
    ),
  ),
  forRule(
    `${contract} P4`,
    endpoint(
      "P4: any text is a host",
      "if (!(HOST.test(name) || IPV6.test(name)) || !USER.test(user)) return null;",
      "if (!(HOST.test(name) || IPV6.test(name) || name.length > 0) || !USER.test(user)) return null;",
      ["test/providers/podhost.test.ts > a host"],
    ),
  ),
  forRule(
    `${contract} P5`,
    market(
      "M4: the machine gets the key of the account",
      "env: { SVC_MACHINE: name },",
      "env: { SVC_MACHINE: name, SVC_KEY: this.client.secret() },",
      [MADE],
    ),
  ),
  forRule(
    "src/providers/host.ts H1",
    commands(
      "H1: a start that is repeated after the end runs the script again",
      'if status and status.get("nonce") == nonce:\n        unlink',
      'if status and status.get("nonce") == nonce and status.get("exit_code") is None:\n        unlink',
      ["test/runner/run.test.ts > does not start a run that has ended"],
    ),
  ),
  forRule(
    "src/providers/host.ts H2",
    localHost(
      "H2: the state of a run is what this process saw first",
      "if (text === this.#parsed?.text) return this.#parsed.status;",
      "if (this.#parsed !== null) return this.#parsed.status;",
    ),
  ),
  forRule(
    "src/providers/host.ts H3",
    spool(
      "H3: an offset of the log counts from the beginning of its file",
      "await readSome(this.#path(start), at - start,",
      "await readSome(this.#path(start), at - offset,",
    ),
  ),

  cloudvm(
    "C1: a machine is looked up in the project of the settings",
    'const project = handle.extra?.["project"] ?? projectOf(session);',
    "const project = projectOf(session);",
  ),
  cloudvm(
    "C1: a machine is looked up in the zone of the settings",
    'const zone = handle.extra?.["zone"] ?? session.settings["zone"] ?? "";',
    'const zone = session.settings["zone"] ?? handle.extra?.["zone"] ?? "";',
  ),
  client(
    "C2: too many requests end an idempotent call",
    "if (asked >= ASKS_MAX || !isTooOften",
    "if (asked >= 1 || !isTooOften",
    [`${MACHINES}too many requests: waits, and retries`],
  ),
  client(
    "C2: a read is not repeated after a short outage",
    "READS.has(endpoint) ? [...READ_AGAIN_MS] : [];",
    "READS.has(endpoint) ? READ_AGAIN_MS.slice(2) : [];",
    [`${OUTAGES}no answer, twice, does not prevent the proof`],
  ),
  client(
    "C2: a termination is repeated after an outage",
    "READS.has(endpoint) ? [...READ_AGAIN_MS] : [];",
    "[...READ_AGAIN_MS];",
    [`${OUTAGES}during an order or a termination is left to the caller`],
  ),
  client(
    "C2: a termination waits as long as it is told to",
    "Math.min(waitMs, DESTROY_WAIT_MAX_MS)",
    "Math.max(waitMs, DESTROY_WAIT_MAX_MS)",
    [`${OUTAGES}A termination waits seconds, whatever delay is requested`],
  ),
  client(
    "C2: one refused termination holds up the others",
    'if (endpoint === "destroy") await',
    'limiter.hold(waitMs);\n      if (endpoint === "destroy") await',
    [`${OUTAGES}A termination waits seconds, whatever delay is requested`],
  ),
  client(
    "C3: a listing that does not say that it is whole counts as whole",
    'if (next_token === undefined && numberOf(total_instances) === null)\n          throw damaged("does not say that it is whole");',
    "void [next_token, total_instances, damaged];",
    [`${MACHINES}no count and no end is an error`],
  ),
  client(
    "C3: a machine without a readable id counts as one with an odd id",
    "idOf(row.id) ?? (oddId === null ? null : ODD_ID);",
    "idOf(row.id) ?? (oddId === undefined ? null : ODD_ID);",
    [`${MACHINES}an id that is not even text is an error`],
  ),
  joint("J1: a joined search has the stricter of two conditions", '["gte", Math.min],', '["gte", Math.max],', [
    `${JOINED}has the looser of two conditions`,
  ]),
  joint(
    "J1: a joined search has a condition that only one has",
    "joined[column] = either;\n    }",
    "joined[column] = either;\n    } else joined[column] = one ?? other;",
    [`${JOINED}has the looser of two conditions`],
  ),
  joint(
    "J2: a search for further pages is joined with another one",
    "if (isFurther(a) || isFurther(b)) return null;",
    "",
    [`${JOINED}does not exist if one asks for a further page`],
  ),
  shared("L2: a failure is kept for later callers", "answer.then(over, over);", "answer.then(over, () => undefined);", [
    "test/providers/shared-look.test.ts",
  ]),

  cell(
    "B1: the cell does not say the terms",
    "say(TERMS)\n    account = pwd.getpwuid(os.geteuid())",
    "account = pwd.getpwuid(os.geteuid())",
    [`${CELL}lets svc in with its printed endpoint`],
  ),
  cell("B2: a password opens the runtime", '"PasswordAuthentication no",', '"PasswordAuthentication yes",', [
    `${CELL}admits no other user, and offers no password`,
  ]),
  cell(
    "B3: the token is on a command line",
    '"--log=stdout", "--log-format=json"], {',
    '"--log=stdout", "--log-format=json", "--authtoken=" + token], {',
    [`${CELL}opens an ngrok tunnel with a token that is stored nowhere`],
  ),
  cell("B3: the token is printed", "last_words(text(), secret) or", "last_words(text()) or", [
    `${CELL}explains ngrok's refusal something else`,
  ]),
  cell(
    "B4: a second run starts another daemon",
    "if old and read(path) == text and answers(port):",
    'if old and read(path) == "" and answers(port):',
    [`${CELL}run again keeps the daemon and its host key`],
  ),
  cell(
    "B4: a second run ends a tunnel of somebody else",
    'if started(pid) is None or started(pid) != state.get("started"):',
    "if started(pid) is None:",
    [`${CELL}leaves alone a process that only reused the number`],
  ),
  cell("B5: a refusal of ngrok is only quoted", "if code in NGROK_WORDS:", "if code in ():", [
    `${CELL}explains ngrok's refusal ERR_NGROK_8013`,
  ]),
  notebook(
    "N1: each poll connects to the runtime",
    "const way = this.#wayTo(handle);",
    "const way = this.#wayTo(handle);\n      if (way) greets(way).catch(() => undefined);",
    ["test/providers/notebook.test.ts > connects nowhere, however often it is asked"],
  ),
  forRule(
    "src/providers/notebook/provider.ts N3",
    pasted(
      "N3: a pasted text brings a command of its own",
      "if (/^(proxycommand|hostname)$/.test(option)) return null;",
      'if (option === "proxycommand") return { host: "notebook", port: 22, user: USER, proxyCommand: set };',
      ["test/providers/notebook.test.ts > ssh -oProxyCommand=reboot root@h is not"],
    ),
  ),
  podhost(
    "D2: an order that may have been carried out is sent again",
    "const wait = waitAfterRefusal(e);",
    "const wait = waitAfterRefusal(e) ?? 1_000;",
    [`${REFUSED}by a page without a delay may mean a request that was passed on`],
  ),
  podhost(
    "D3: an order that GraphQL refused is made by REST without a look",
    "if (instead === null) throw e;\n          api = instead;",
    "api = instead ?? this.#rest;",
    [`${APIS}is looked up by its name if REST's list shows such a pod`],
  ),
];
