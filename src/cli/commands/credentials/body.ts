// Reads the arguments of `svc credentials set`. No secret is accepted on the command line.

import { DESCRIPTORS, providerSpeaking } from "../../../providers/descriptors.ts";
import { CREDENTIAL_FIELDS, CREDENTIAL_NAMES, type CredentialName } from "../../../schemas/credential-blocks.ts";
import type { CredentialBody } from "../../../schemas/credentials.ts";
import { usage } from "../../argv.ts";
import type { Io } from "../../io.ts";
import { readSecret } from "../../read-secret.ts";

export function nameOf(name: string | undefined): CredentialName {
  const known = CREDENTIAL_NAMES.find((each) => each === name);
  if (known) return known;
  const provider = name === undefined ? null : providerSpeaking(name);
  if (provider !== null)
    throw usage(`${DESCRIPTORS[provider].speaks} is called ${provider} here.`, `Write ${provider} instead.`);
  throw usage(
    name === undefined ? "A name is missing." : "The name of this credential is unknown.",
    `Use one of ${CREDENTIAL_NAMES.join(", ")}.`,
  );
}

/**
 * `FIELD=VALUE` sets, `FIELD=` removes, `FIELD` is read from standard input; no argument means the first secret field.
 */
export async function bodyOf(name: CredentialName, words: string[], io: Io): Promise<CredentialBody> {
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
