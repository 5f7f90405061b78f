// Deliberate defects in the rules that keep secrets and strangers apart: redaction, credentials, the gate, addresses, SSH and files that
// another computer names. Each is named by the head that states its invariant, and has the test files that must notice it.

import { single, type TestedMutant } from "./mutants.ts";

const redaction = single("redaction", "src/domain/redaction.ts", ["test/domain/redaction.test.ts"]);
const stream = single("log stream", "src/domain/log-stream.ts", ["test/domain/log-stream.test.ts"]);
const storeFile = single("credential store", "src/secrets/store-file.ts", ["test/secrets/credentials.test.ts"]);
const resolve = single("secret references", "src/secrets/resolve.ts", ["test/secrets/resolve.test.ts"]);
const service = single("credential service", "src/secrets/credential-service.ts", [
  "test/secrets/credential-service.test.ts",
]);
const known = single("known secrets", "src/secrets/known.ts", ["test/secrets/known.test.ts"]);
const targets = single("notify targets", "src/notify/targets.ts", ["test/notify/target-secrets.test.ts"]);
const address = single("public address", "src/notify/public-address.ts", ["test/notify/post.test.ts"]);
const post = single("post", "src/notify/post.ts", ["test/notify/post.test.ts"]);
const http = single("provider http", "src/providers/http.ts", ["test/providers/http.test.ts"]);
const gate = single("gate", "src/api/gate.ts", ["test/api/gate.test.ts"]);
const peer = single("peer", "src/api/peer.ts", ["test/api/gate.test.ts"]);
const downloads = single("downloads", "src/api/routes/downloads.ts", ["test/api/downloads.test.ts"]);
const connection = single("ssh", "src/ssh/connection.ts", [
  "test/ssh/connection.test.ts > is aborted at its deadline and at its signal",
]);
const manifest = single("tree", "src/ssh/tree-manifest.ts", ["test/ssh/tree-manifest.test.ts"]);
const tree = single("tree", "src/ssh/tree.ts", ["test/ssh/tree-manifest.test.ts"]);
const dial = single("ssh", "src/ssh/dial.ts", ["test/ssh/connection.test.ts"]);
const pins = single("ssh", "src/ssh/host-keys.ts", ["test/ssh/host-keys.test.ts"]);
const endpoint = single("provider", "src/domain/endpoint.ts", ["test/domain/small-rules.test.ts"]);
const hubPaths = single("hub paths", "src/hub/paths.ts", ["test/hub/names.test.ts"]);
const transfer = single("hub transfer", "src/hub/transfer.ts", ["test/hub/pull.test.ts", "test/hub/transfer.test.ts"]);
const git = single("git", "src/files/listing/ask-git.ts", ["test/files/git-index.test.ts"]);
const sealed = single("registry", "src/secrets/registry.ts", ["test/secrets/registry.test.ts"]);

export const GUARDING_MUTANTS: readonly TestedMutant[] = [
  redaction(
    "R1: a log that is not UTF-8 is changed",
    "parts.push(bytes.subarray(at, consumed));",
    "parts.push(Buffer.from(bytes.subarray(at, consumed).toString()));",
  ),
  redaction(
    "R2: a secret that overlaps another one shows its end",
    "end = Math.max(end, match?.end ?? 0);",
    "end = Math.max(end, 0);",
  ),
  redaction(
    "R3: the beginning of a secret at the end of a part is passed on",
    "const tails = final ? [] : this.#tails(bytes, rule);",
    "const tails = final || bytes.length > 0 ? [] : this.#tails(bytes, rule);",
  ),
  redaction(
    "R4: a finding that may grow is decided at once",
    "if (covered === null || covered.open) {",
    "if (covered === null || (covered.open && covered.start < 0)) {",
  ),
  redaction(
    "R5: the beginning of a secret in front of a cut is shown",
    'this.#mayEndInHalf(rest) ? "cut" : true',
    'this.#mayEndInHalf(rest) && at < 0 ? "cut" : true',
  ),
  redaction(
    "R5: the end of a secret after a cut is shown",
    "const after = at === 0 ? 0 : this.#endOfSecret(part, next >= 0);",
    "const after = at === 0 || next < 0 ? 0 : this.#endOfSecret(part, next >= 0);",
  ),
  stream(
    "S2: records after a held tail are stored at once",
    "records: records.filter((record) => record.offset < raw)",
    "records",
  ),
  stream("S5: a record of another mark counts", "`\\x1esvc1:${mark} `", "`\\x1esvc1:${mark.slice(0, 1)}`"),
  stream(
    "S6: a secret that records cut in two is passed on",
    "end) <= RECORD_GAP_MAX,\n    tail",
    "end) <= 0,\n    tail",
  ),
  stream("S7: a part begins within a line", "if (!opts.wholeLines || final)", "if (final || bytes.length > 0)", [
    "test/steps/follow/log-follower.test.ts",
  ]),
  storeFile(
    "C1: the store is read through a symlink",
    "(rules.ownersAlone ? constants.O_NOFOLLOW : 0)",
    "(rules.bytesMax < 0 ? constants.O_NOFOLLOW : 0)",
  ),
  storeFile("C1: a pipe is read", "if (!facts.isFile()) throw new UnusableFile(`${file} is not a plain file`);", ""),
  storeFile("C2: others may go on reading the store", "if (rules.ownersAlone) makeOwnersAlone(file, fd, facts);", ""),
  storeFile(
    "C3: a broken store is quoted",
    "throw new UnusableFile(`${file} is not valid JSON`);",
    "throw new UnusableFile(`${file} is not valid JSON: ${text}`);",
  ),
  resolve(
    "S1: a job reads any file of the owner",
    "if (scheme === undefined || path === undefined)\n    return",
    'if (reference.startsWith("file://")) return resolveOwnersSecret(reference, home, env);\n  if (scheme === undefined || path === undefined)\n    return',
  ),
  resolve(
    "S3: an error quotes an entry of the store",
    ': notFound(reference, "the credential store has no such entry");',
    ": notFound(reference, `the credential store has ${JSON.stringify(value)}`);",
  ),
  service("D1: an answer repeats the key", "return redactor.redactValue(await work());", "return await work();"),
  service(
    "D1: an error repeats the key",
    "if (!(e instanceof SvcError) || redactor.empty) throw e;",
    'if (!(e instanceof SvcError) || redactor.empty || e.message !== "") throw e;',
  ),
  service(
    "D2: a value of the environment is replaced in the store",
    "const found = foundIn(name, field, {}, this.#o);",
    "const found = foundIn(name, field, {}, { ...this.#o, env: {} });",
  ),
  service(
    "D3: a refused credential is saved",
    "const check = options.check ? await this.#ask(name, places) : null;\n    this.#change(change);",
    "this.#change(change);\n    const check = options.check ? await this.#ask(name, places) : null;",
  ),
  service(
    "D4: a credential is removed while its machine costs money",
    'if (machines > 0) throw new SvcError("credential_in_use", { name, machines });\n    this.#change(',
    "this.#change(",
  ),
  service(
    "D4: a needed part is removed while its machine costs money",
    'if (machines > 0) throw new SvcError("credential_in_use", { name, machines });\n    }',
    "void machines;\n    }",
  ),
  known(
    "K1: an unreadable store throws",
    "const store = orElse(() => readStore(home), {});",
    "const store = readStore(home);",
  ),
  known("K3: the token of the API is not masked", "return [...own, ...fields,", "return [...own.slice(2), ...fields,"),
  known(
    "K3: a secret that the environment overrules is not masked",
    'if (typeof member === "string") return SECRET_FIELDS.has(name) || holdsSecret(name, member) ? [member] : [];',
    'if (typeof member === "string") return !SECRET_FIELDS.has(name) && holdsSecret(name, member) ? [member] : [];',
  ),
  known(
    "K3: what a local run inherits is not masked",
    "...registry.values, ...inheritedSecrets(env).filter(isNoPlace)",
    "...registry.values",
  ),
  known(
    "K3: other entries of the store are not masked",
    "...leavesOf(store), ...registry.values",
    "...registry.values",
  ),
  sealed(
    "R2: the environment adds to a credential of configure()",
    "if (!Object.hasOwn(values, at)) return",
    "if (!values[at]) return",
  ),
  targets(
    "T2: secrets of targets are masked only when they are sent",
    "for (const named of this.list())\n      try {",
    "for (const named of this.list().slice(0, 0))\n      try {",
  ),
  targets(
    "T3: a secret is kept in the target",
    "{ ...target, secret_ref: `store://${BLOCK}/${name}/secret` };",
    "{ ...target, secret_ref: `literal://${given}` };",
  ),
  address("A1: a shared address counts as public", '["100.64.0.0", 10],', ""),
  address("A1: an address that carries IPv4 counts as public", '["2002::", 16],', ""),
  post(
    "A2: a name is resolved again after its check",
    "return { agent: false, lookup: lookupOf(pinned) };",
    "return { agent: false, lookup: lookupOf(await pinnedAddresses(host, rules)) };",
  ),
  address(
    "A3: one public address admits the name",
    "found.find(({ address }) => !isPublicAddress(address));",
    "found.some(({ address }) => isPublicAddress(address)) ? undefined : found[0];",
  ),
  post(
    "P3: an answer without end is read",
    "if (length >= ANSWER_BYTES_MAX) break;",
    "if (length >= 10_000 * ANSWER_BYTES_MAX) break;",
  ),
  post(
    "P4: an error names the path",
    "const why = `${url.host} answers ${status}",
    "const why = `${url.href} answers ${status}",
  ),
  post("P5: a proxy is asked for a private name", "|local|internal|", "|local|"),
  http("H1: an answer of any size is kept", "if (bytes <= maxBytes) return", "if (bytes >= 0) return"),
  http("H2: a key leaves over plain http", "if (!keepsSecrets(url))", 'if (!keepsSecrets(url) && url.host === "")'),
  http(
    "H2: a redirect counts as an answer",
    "if (answer.status >= 300 && answer.status < 400)",
    "if (answer.status >= 600)",
  ),
  http(
    "H3: an error names the query",
    "`${request.method} ${url.host}${url.pathname}`",
    "`${request.method} ${url.host}${url.pathname}${url.search}`",
  ),
  http(
    "H3: an answer repeats the key",
    'proofs.redactText(Buffer.concat(chunks).toString("utf8"))',
    'Buffer.concat(chunks).toString("utf8")',
  ),
  http(
    "H3: escapes of JSON show the key",
    'return text.includes("\\\\") ? proofs.redactValue(value) : value;',
    "return value;",
  ),
  http(
    "H4: a request that may have arrived counts as never sent",
    "this.fail(this.sent ? error : neverSent(error));",
    "this.fail(neverSent(error));",
  ),
  gate(
    "G1: another user's connection is parsed",
    "if (uid !== null && uid !== process.getuid?.()) {",
    "if (uid !== null && uid < 0) {",
  ),
  gate(
    "G2: any Host is answered",
    'if (self === null) return refused(new SvcError("host_refused", { host: short(request.headers.host) }));',
    'if (self === null) return { kind: "admitted", self: "" };',
  ),
  gate(
    "G2: a Host without the right port is answered",
    "if (asked === `${name}:${localPort}` || (localPort === 80 && asked === name)) return asked;",
    'if (asked.replace(/:\\d+$/, "") === name) return asked;',
  ),
  gate(
    "G3: another origin of this computer may write",
    "origins.find((origin) => origin !== `http://${self}`)",
    "origins.find((origin) => !/^http:\\/\\/(localhost|127)/.test(origin))",
  ),
  gate(
    "G4: a request from another site passes",
    'if (site !== undefined && site !== "same-origin" && site !== "none" && !opensShell(request, target)) {',
    "if (site !== undefined && site.length > 99 && !opensShell(request, target)) {",
  ),
  gate(
    "G7: a page of another program on [::1] calls svc as localhost",
    "if (/^localhost(:|$)/.test(self) && isOfBrowser(request)) {",
    "if (/^localhost(:|$)/.test(self) && request.headers.upgrade === self) {",
  ),
  gate(
    "G8: a service worker is served its script",
    'if (request.headers["service-worker"] !== undefined)',
    'if (request.headers["service-worker"] === "")',
  ),
  gate(
    "G5: a caller of unknown user needs no token",
    "if (token === undefined) return false;",
    "if (token === undefined || request.headers.authorization === undefined) return true;",
  ),
  gate(
    "G5: any token opens",
    "if (bearer !== undefined) return same(bearer, token);",
    "if (bearer !== undefined) return true;",
  ),
  gate("G5: the link works twice", "if (ticketGood) this.#ticket = null;", ""),
  gate("G5: a link of svc open works twice", " || this.#used.has(link)", ""),
  gate(
    "G5: the token opens in an address",
    "if (ticketGood) return true;",
    "if (ticketGood || same(link, token)) return true;",
  ),
  peer("U2: a row without an inode names a user", 'inode === "0" || ', ""),
  downloads(
    "D1: a path that no record has is opened",
    "const path = cp.reads.checkpointPath(id, name);",
    "const path = cp.reads.checkpointPath(id, name) ?? join(cp.home, name);",
  ),
  downloads(
    "D2: a symlink at the end is followed",
    "constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK",
    "constants.O_RDONLY | constants.O_NONBLOCK",
  ),
  downloads(
    "D2: a folder that is a symlink is followed",
    "const named = straight ? await stat(path) : null;",
    "const named = await stat(path);",
  ),
  downloads("D3: a folder is sent", "if (found.isFile() && named", "if (named"),
  dial(
    "S1: a changed host key is accepted",
    'changed = pins.check(machine, presented) === "changed";',
    'changed = pins.check(machine, presented) === "changed" && machine === "";',
  ),
  dial(
    "S1: a key is pinned before it let us in",
    "shown = presented;",
    'shown = presented;\n          if (pins.check(machine, presented) === "new") pins.pin(machine, presented);',
  ),
  pins(
    "S1: an unreadable pin counts as none",
    'return pinned.some((each) => each.equals(key)) ? "same" : "changed";',
    'return pinned.some((each) => each.equals(key)) ? "same" : pinned.length === 0 ? "new" : "changed";',
  ),
  endpoint(
    "P4: a host may be an option of ssh",
    "if (!(HOST.test(name) || IPV6.test(name)) || !USER.test(user)) return null;",
    "if (!USER.test(user)) return null;",
  ),
  endpoint("P4: a user may be an option of ssh", "|| !USER.test(user)) return null;", ") return null;"),
  endpoint("P4: an id may be a path", "ID.test(text) ? text : null;", 'text !== "" ? text : null;', [
    "test/providers/podhost-odd.test.ts",
  ]),
  {
    name: "hub paths P1: a path leaves its folder",
    patches: [
      {
        file: "src/hub/paths.ts",
        find: 'if (segment === "" || segment === "." || segment === "..") return',
        replace: 'if (segment === "" || segment === ".") return',
      },
      { file: "src/hub/paths.ts", find: "if (/[. ]$/.test(segment))", replace: "if (/[^.][. ]$/.test(segment))" },
    ],
    tests: ["test/hub/names.test.ts"],
  },
  hubPaths(
    "P3: two names that are one on some systems are taken",
    "if (twin !== undefined) return",
    "if (twin === path) return",
  ),
  hubPaths(
    "P4: a repository writes into the bookkeeping folder",
    "if (/^\\.cache\\/huggingface(\\/|$)/i.test(path))",
    "if (/^\\.cache\\/huggingface$/i.test(path))",
  ),
  transfer("T1: the token follows a redirect", "...(ours && token !== null ?", "...(token !== null ?"),
  transfer("T4: an error names the query", "`${url.host}${url.pathname}`", "`${url.host}${url.pathname}${url.search}`"),
  git("A1: git starts what the repository names", '"core.fsmonitor=false", ', "", [
    "test/files/project-listing.test.ts",
  ]),
  git(
    "A3: git gets keys of the environment",
    "Object.entries(withoutSecrets(process.env))",
    "Object.entries(process.env)",
    ["test/files/project-listing.test.ts"],
  ),
  connection(
    "S2: a call has no deadline",
    "const signal = AbortSignal.any([options.signal, deadline.signal]);",
    "const signal = options.signal;",
  ),
  tree(
    "T1: a path that leads out of the project is sent",
    "tree.files.find(({ path }) => !isInside(path)) &&",
    'tree.files.find(({ path }) => path === "") &&',
  ),
  manifest(
    "T1: a path of the manifest that leads out of the tree is known",
    "name === undefined || !isInside(name)",
    'name === undefined || name === ""',
  ),
  manifest(
    "M1: half a manifest replaces a whole one",
    '[ "$(wc -c <"$t")" -eq ${bytes.length} ]',
    "[ ${bytes.length} -ge 0 ]",
  ),
];
