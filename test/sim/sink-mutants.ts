// Deliberate defects in the rules of secrets and of sinks. Each is named by the head that states its invariant, and has the tests that
// must notice it.

import { forRule, single, type TestedMutant } from "./mutants.ts";

const CREDENTIALS = ["test/secrets/credentials.test.ts"];
const REGISTRY = ["test/secrets/registry.test.ts"];
const SINKS = "test/sinks/sinks.whole.test.ts";

const credentials = single("credentials", "src/secrets/credentials.ts", CREDENTIALS);
const field = single("credentials", "src/secrets/read-credential.ts", CREDENTIALS);
const known = single("known secrets", "src/secrets/known.ts", ["test/secrets/known.test.ts"]);
const put = single("registry", "src/secrets/put-registry.ts", REGISTRY);
const resolve = single("references", "src/secrets/resolve.ts", REGISTRY);
const copier = single("copier", "src/sinks/copier.ts", [SINKS]);
const gcs = single("second kind of store", "src/sinks/gcs-store.ts", [SINKS]);
const s3 = single("first kind of store", "src/sinks/s3-store.ts", [SINKS]);
const sinks = single("sinks", "src/sinks/sinks.ts", [SINKS]);

export const SINK_MUTANTS: readonly TestedMutant[] = [
  forRule(
    "src/secrets/credentials.ts K1",
    field(
      "K1: the store comes before the environment",
      "for (const variable of at.variables) {",
      "for (const variable of storedEntry(at.block, at.name) === undefined ? at.variables : []) {",
    ),
  ),
  forRule(
    "src/secrets/credentials.ts K2",
    field(
      "K2: the store is read once",
      "export const storeOf = (places: Places): Record<string, unknown> => places.store ?? readStore(places.home);",
      `const readBefore = new Map<string, Record<string, unknown>>();
export const storeOf = (places: Places): Record<string, unknown> => {
  const found = places.store ?? readBefore.get(places.home) ?? readStore(places.home);
  readBefore.set(places.home, found);
  return found;
};`,
    ),
  ),
  forRule(
    "src/secrets/credentials.ts K3",
    field(
      "K3: an error quotes a key file that is cut off",
      "${what} is not valid JSON: it must be",
      "${what} is not valid JSON (${text.slice(0, 80)}): it must be",
    ),
  ),
  credentials(
    "K4: an unreadable store stops svc although the environment has every value",
    "if (fromEnv.missing.length === 0 && !storeIsReadable(places)) return fromEnv;",
    "",
  ),
  known("K2: every look reads the files again", "stampOf(file) !== stamp", 'stamp !== ""'),
  known("K2: a changed file is not read again", "stampOf(file) !== stamp", 'stamp === ""'),
  known(
    "K2: what a changed file held is forgotten",
    "this.remember(this.#credentials.filter(",
    "void (this.#credentials.filter(",
  ),
  known(
    "K2: a file outside of the home is not watched",
    "stamps.set(file, stampOf(file))",
    'stamps.set(file, file.startsWith(this.#places.home) ? stampOf(file) : "none")',
  ),
  forRule(
    "src/secrets/registry.ts R1",
    put("R1: a literal is written in clear", "return LITERAL;", "return reference;"),
  ),
  forRule(
    "src/secrets/registry.ts R3",
    put(
      "R3: a credential is removed while its machines run",
      "options.machinesOf(c.provider) > 0,",
      "options.machinesOf(c.provider) < 0,",
    ),
  ),
  forRule(
    "src/secrets/registry.ts R3",
    put(
      "R3: a credential is changed while its machines run",
      "const secret = machines === 0 ? null : options.secretOf(name, places);",
      "const secret = machines >= 0 ? null : options.secretOf(name, places);",
    ),
  ),
  resolve(
    "S2: the owner's registry may name no file",
    'return scheme === "file" ? fromFile',
    'return scheme === "file" && rest === "" ? fromFile',
  ),
  {
    name: "copier C1: the first pass decides which files are copied",
    patches: [
      {
        file: "src/sinks/copier.ts",
        find: "#store: ObjectStore | null = null;",
        replace:
          '#store: ObjectStore | null = null;\n  #first: ReturnType<SinkPorts["rows"]["uncopied"]> | null = null;',
      },
      {
        file: "src/sinks/copier.ts",
        find: "return this.#o.rows.uncopied(this.key).map(",
        replace: "return (this.#first ??= this.#o.rows.uncopied(this.key)).map(",
      },
    ],
    tests: [
      `${SINKS} > copies checkpoints and the log while the run is active, and the rest, with the list, at its end`,
    ],
  },
  copier(
    "C3: a copy counts although the store has something else",
    'if (asSvcError(e).code === "sink_mismatch") await this.#remember(file, NONE, null);\n        throw e;',
    'if (asSvcError(e).code !== "sink_mismatch") throw e;',
  ),
  gcs(
    "G1: a content that differs counts",
    'if (facts.md5Hash === file.md5.toString("base64")) return;',
    "if (facts.md5Hash !== undefined) return;",
  ),
  gcs(
    "G2: a session at another address is used",
    "if (!URL.canParse(session) || new URL(session).origin !== new URL(this.#base).origin)",
    "if (!URL.canParse(session))",
    ["test/sinks/bounds.test.ts"],
  ),
  forRule(
    "src/sinks/gcs-store.ts G2",
    copier(
      "G2: the address of a session is stored in clear",
      'sealText(name, this.#o.key).toString("base64")',
      "name",
      [`${SINKS} > stores and reports no secret in clear`],
    ),
  ),
  gcs(
    "G3: an upload is resumed at its beginning",
    "let at = session === null ? null : await this.#arrived(session, file, turn.signal);",
    "let at: number | ObjectFacts | null = session === null ? null : 0;",
  ),
  s3(
    "B1: a part carries no MD5",
    "PartNumber: i + 1, Body, ContentMD5 };",
    'PartNumber: i + 1, Body, ...(ContentMD5 === "" ? { ContentMD5 } : {}) };',
    [`${SINKS} > goes on with an upload whose name was lost, and leaves no second one at the store`],
  ),
  sinks("L4: a control plane that stops waits for no copy", "!r.failing && this.#o.job", "r.failing && this.#o.job", [
    `${SINKS} > gets a little time at the end of a control plane for copies of an ended run`,
  ]),
];
