// `svc credentials`: the credentials with which svc acts for its owner. A secret is read from standard input and never
// from the command line, which every user of this computer can see.

import { CREDENTIAL_NAMES } from "../../schemas/credential-blocks.ts";
import type { CredentialBody, CredentialCheck, Credentials, SavedCredential } from "../../schemas/credentials.ts";
import { usage } from "../argv.ts";
import type { Command } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { printJson } from "../text.ts";
import { bodyOf, nameOf } from "./credentials/body.ts";
import { list, removedWords, told } from "./credentials/show.ts";

/** The credential operations, over HTTP or in this process. */
interface Desk {
  list(): Credentials | Promise<Credentials>;
  save(name: string, body: CredentialBody, options: { check: boolean }): Promise<SavedCredential>;
  remove(name: string): unknown;
  check(name: string): Promise<CredentialCheck>;
}

const VERBS = ["ls", "set", "check", "rm"];

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
  completes: (before) => (before.length === 0 ? VERBS : before.length === 1 ? CREDENTIAL_NAMES : []),
  async run(input, io) {
    const [verb = "ls", name, ...fields] = input.args;
    if (!VERBS.includes(verb))
      throw usage(`Unknown action \`svc credentials ${safeField(verb)}\`.`, "Use ls, set, check or rm.");
    if (verb === "ls") return withDesk(io, true, async (desk) => list(await desk.list(), input, io));
    const known = nameOf(name);
    if (verb !== "set" && fields.length > 0)
      throw usage(`\`${verb}\` takes a name and no fields.`, "Leave the fields out.");
    const body = verb === "set" ? await bodyOf(known, fields, io) : {};
    return withDesk(io, verb !== "set", async (desk) => {
      if (verb === "check") return told(known, await desk.check(known), input, io);
      if (verb === "rm") {
        const before = await desk.list();
        await desk.remove(known);
        io.err(removedWords(known, before));
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

async function withDesk(io: Io, onlyReads: boolean, use: (desk: Desk) => Promise<number>): Promise<number> {
  const client = await runningClient(io);
  if (!client) return withOwnControlPlane(io, "look", (cp) => use(cp.credentials), { onlyReads });
  return use({
    list: () => client.credentials(),
    save: (name, body, { check }) => client.saveCredential(name, body, check),
    remove: (name) => client.removeCredential(name),
    check: (name) => client.checkCredential(name),
  });
}
