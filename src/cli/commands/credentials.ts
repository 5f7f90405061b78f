// `svc credentials`: the credentials with which svc acts for its owner. A secret is read from standard input and never
// from the command line, which every user of this computer can see.

import { CREDENTIAL_FIELDS, CREDENTIAL_NAMES, type CredentialName } from "../../schemas/credential-blocks.ts";
import type { CredentialBody, CredentialCheck, Credentials, SavedCredential } from "../../schemas/credentials.ts";
import { usage } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { readSecret } from "../read-secret.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { printFields, printJson } from "../text.ts";

/** The credential operations, over HTTP or in this process. */
interface Desk {
  list(): Credentials | Promise<Credentials>;
  save(name: string, body: CredentialBody, options: { check: boolean }): Promise<SavedCredential>;
  remove(name: string): unknown;
  check(name: string): Promise<CredentialCheck>;
}

export const credentials: Command = {
  name: "credentials",
  args: "[verb] [name] [...fields]",
  summary: "List, set, check or remove credentials; secrets are read from standard input",
  options: [{ flags: "--check", what: "With `set`: verify with the provider before saving" }],
  exits: [
    ["4", "credential missing or refused"],
    ["5", "control plane or provider not reachable"],
  ],
  examples: [
    "svc credentials",
    "svc credentials set podhost --check",
    "svc credentials set hub token < token.txt",
    "svc credentials set objstore_a access_key_id=AKIA… region=eu-west-1 secret_access_key",
    "svc credentials set cloudvm zone=europe-west4-a service_account_json < key.json",
    "svc credentials check market",
    "svc credentials rm market",
  ],
  async run(input, io) {
    const [verb = "ls", name, ...fields] = input.args;
    if (!["ls", "set", "check", "rm"].includes(verb))
      throw usage(`Unknown action \`svc credentials ${safeField(verb)}\`.`, "Use ls, set, check or rm.");
    if (verb === "ls") return withDesk(io, async (desk) => list(await desk.list(), input, io));
    const known = nameOf(name);
    if (verb !== "set" && fields.length > 0)
      throw usage(`\`${verb}\` takes a name and no fields.`, "Leave the fields out.");
    const body = verb === "set" ? await bodyOf(known, fields, io) : {};
    return withDesk(io, async (desk) => {
      if (verb === "check") return told(known, await desk.check(known), input, io);
      if (verb === "rm") {
        await desk.remove(known);
        io.err(`Removed the stored credential ${known}.`);
        return 0;
      }
      const saved = await desk.save(known, body, { check: input.flags.has("check") });
      io.err(`Saved for ${known}.`);
      if (saved.check) return told(known, saved.check, input, io);
      if (input.json) await printJson(io, saved);
      return 0;
    });
  },
};

async function withDesk(io: Io, use: (desk: Desk) => Promise<number>): Promise<number> {
  const client = await runningClient(io);
  if (!client) return withOwnControlPlane(io, "look", (cp) => use(cp.credentials));
  return use({
    list: () => client.credentials(),
    save: (name, body, { check }) => client.saveCredential(name, body, check),
    remove: (name) => client.removeCredential(name),
    check: (name) => client.checkCredential(name),
  });
}

function nameOf(name: string | undefined): CredentialName {
  const known = CREDENTIAL_NAMES.find((each) => each === name);
  if (known) return known;
  throw usage(
    name === undefined ? "A name is missing." : "The name of this credential is unknown.",
    `Use one of ${CREDENTIAL_NAMES.join(", ")}.`,
  );
}

/**
 * `FIELD=VALUE` sets, `FIELD=` removes, `FIELD` is read from standard input; no argument means the first secret field.
 */
async function bodyOf(name: CredentialName, words: string[], io: Io): Promise<CredentialBody> {
  const body: CredentialBody = {};
  const fields = CREDENTIAL_FIELDS[name];
  const secret = fields.find((f) => f.secret && f.kind !== "path");
  const given = words.length === 0 && secret ? [secret.name] : words;
  // An unknown word may be the secret itself, without its field.
  if (given.some((word) => !fields.some((f) => f.name === word.split("=", 1)[0])))
    throw usage(
      `One argument is not a field of ${name}. If it was a secret, other users may have read it: create a new one.`,
      `The fields are ${fields.map((f) => f.name).join(", ")}; pass a secret on standard input.`,
    );
  const read = given.filter((word) => !word.includes("="));
  if (read.length > 1) throw usage("Only one field can be read from standard input.", "Set the others one by one.");
  for (const word of given.filter((w) => w.includes("="))) {
    const at = word.indexOf("=");
    const [field, value] = [word.slice(0, at), word.slice(at + 1)];
    const known = fields.find((f) => f.name === field);
    const path = known?.kind === "key_file" && /^(\/|~\/)/.test(value);
    if (value !== "" && !path && known?.secret)
      throw usage(
        `The value of ${field} was on the command line, where other users can read it: treat it as leaked and create a new one.`,
        `Pass it on standard input: svc credentials set ${name} ${field}`,
      );
    body[field] = value === "" ? null : value;
  }
  for (const field of read) body[field] = await readSecret(`${name}.${field}: `, io);
  return body;
}

async function list(all: Credentials, input: Input, io: Io): Promise<number> {
  if (input.json) {
    await printJson(io, all);
    return 0;
  }
  const { providers, ...services } = all;
  const rows = Object.entries({ ...providers, ...services }).flatMap(([name, fields]) =>
    Object.entries(fields).map(([field, { value, source }]) => [`${name}.${field}`, value, source].map(safeField)),
  );
  if (rows.length === 0) io.err("No credentials are set. `svc credentials set podhost` asks for a key.");
  const widths = [0, 1].map((i) => Math.max(0, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (row: string[]): string =>
    io.tty
      ? row
          .map((cell, i) => cell.padEnd(widths[i] ?? 0))
          .join("  ")
          .trimEnd()
      : row.join("\t");
  await io.out(rows.map((row) => `${line(row)}\n`).join(""));
  return 0;
}

async function told(name: string, check: CredentialCheck, input: Input, io: Io): Promise<number> {
  if (input.json) {
    await printJson(io, { name, ...check });
    return 0;
  }
  const balance = check.balance_usd === null ? [] : [["balance", `$${check.balance_usd.toFixed(2)}`]];
  const lines = [
    ["account", check.account ?? "not reported"],
    ...check.may.map((what) => ["may", what]),
    ...balance,
    ...check.warnings.map((what) => ["note", what]),
  ];
  await printFields(io, lines);
  return 0;
}
