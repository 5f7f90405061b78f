// How a person reaches the dashboard of `svc serve`: the token of this home, the link that holds it, and the browser.

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Io } from "../../io.ts";
import type { ServeLog } from "../../serve-log.ts";
import { replaceFile } from "../../../platform/replace-file.ts";
import { homeLayout } from "../../../platform/home-layout.ts";

/** The bearer token of this home, created when it is first needed. */
export function tokenOf(home: string): string {
  const path = homeLayout.token(home);
  try {
    const token = readFileSync(path, "utf8").trim();
    if (token.length >= 32) return token;
  } catch {
    // Not made yet.
  }
  const token = randomBytes(32).toString("base64url");
  replaceFile(path, `${token}\n`);
  return token;
}

/**
 * The link opens everything: it is only for the person at this terminal, and never on a command line, where every user
 * would see it.
 */
export function tellOfToken(file: string, link: string, io: Io, log: ServeLog): void {
  log.info(`Clients need the token in ${file}.`);
  if (io.tty) io.err(`Open this link in a browser; it works once: ${link}`);
}
