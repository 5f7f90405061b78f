// What `svc sim` prints once it serves: the variables to set, and the commands to try; and at its end.

import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { dollars } from "../../../errors/dollars.ts";
import { quoted } from "../../../domain/shell-words.ts";
import { checkoutRoot } from "../../root.ts";

/** A port other than the default: the command line must not reach a control plane that rents real machines. */
const PORT = 8781;

export const HOME_GOES = "The folder SVC_HOME is deleted at the end.";

export function whatNow({
  kind,
  urls,
  gpus,
}: {
  kind: string;
  urls: Record<string, string>;
  gpus: Record<string, string>;
}) {
  const root = checkoutRoot();
  const start = ([provider, wanted]: [string, string]): string => {
    const spec = { provider, gpus: wanted, entrypoint: "train.py", project_dir: join(root, "examples", "digits") };
    const body = JSON.stringify({ label: `${provider} simulated`, spec });
    return `  curl -s http://127.0.0.1:${PORT}/jobs -H 'Content-Type: application/json' -d ${quoted(body)}`;
  };
  const machines =
    kind === "plain"
      ? "an sshd each, on this computer's own files"
      : "booted here, each with its own network, processes and disk";
  return [
    `Serving ${Object.keys(urls).join(", ")} on this computer only. Machines are ${machines}. Nothing costs money.`,
    "",
    "In a second terminal, paste the lines that begin with export or unset, and start a control plane there:",
    `  ${join(root, "bin", "svc")} serve --port ${PORT}`,
    "In a third one, paste them again, and start a run:",
    ...Object.entries(gpus).map(start),
    "Then `svc jobs`, `svc logs -f JOB`, `svc timeline JOB`, and, while it runs, `svc ssh JOB`.",
    "",
    "Providers not listed above are still the real ones in those terminals.",
    `${HOME_GOES} Ctrl-C ends all machines and prints what they would have cost.`,
  ].join("\n");
}

/** Variables set in this environment that would override the simulators' credentials. */
export function unsets(
  { env, urls }: { env: Record<string, string>; urls: Record<string, string> },
  here: NodeJS.ProcessEnv,
) {
  const prefixes = Object.keys(urls).map((provider) => `${provider.toUpperCase()}_`);
  const names = Object.keys(here).filter(
    (name) => /^[A-Z_]+$/.test(name) && !(name in env) && prefixes.some((prefix) => name.startsWith(prefix)),
  );
  return names.length === 0 ? [] : [`unset ${names.join(" ")}`];
}

export const exports = (env: Record<string, string>): string =>
  Object.entries(env)
    .map(([name, value]) => `export ${name}=${quoted(value)}`)
    .join("\n");

export function lastWords(served: { kind: string; cost(): number }): string {
  const words = `Ending all machines. They would have cost ${dollars(served.cost())}.`;
  // Machines without a disk of their own leave a folder in the home, as a real machine would.
  return served.kind === "plain" && existsSync(join(homedir(), ".svc-machine"))
    ? `${words} They used this computer's own files: \`rm -r ~/.svc-machine\` deletes what they left there.`
    : words;
}
