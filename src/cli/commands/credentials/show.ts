// Prints the list of credentials, and the result of a check with the provider.

import type { CredentialCheck, Credentials } from "../../../schemas/credentials.ts";
import { isService, type CredentialName } from "../../../schemas/credential-blocks.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { safeField } from "../../../domain/terminal-text.ts";
import { printFields, printJson } from "../../text.ts";

export async function list(all: Credentials, input: Input, io: Io): Promise<number> {
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

export async function told(name: string, check: CredentialCheck, input: Input, io: Io): Promise<number> {
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

export function removedWords(name: CredentialName, before: Credentials): string {
  const fields = isService(name) ? before[name] : before.providers[name];
  return Object.values(fields ?? {}).some(({ source }) => source === "store")
    ? `Removed the stored credential ${name}.`
    : `This home stores no credential ${name}: nothing was removed. \`svc credentials\` lists those that are set, and where.`;
}
