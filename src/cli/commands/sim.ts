// `svc sim`: simulated providers on this computer, to try everything without cost. They belong to the tests and depend
// on nothing in the product, so they are loaded by path, from the program's folder.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { quoted } from "../../domain/shell-words.ts";
import { dollars } from "../../errors/dollars.ts";
import { SvcError } from "../../errors/index.ts";
import { usage, whole } from "../argv.ts";
import type { Command } from "../command.ts";
import { checkoutRoot } from "../root.ts";
import { printJson } from "../text.ts";

/** The functions of test/sim/serve.ts that this command uses. */
interface SimModule {
  objectionTo(words: { providers: readonly string[]; faults: readonly string[] }): string | null;
  missingPrograms(): string[];
  serveSims(options: {
    providers: readonly string[];
    port: number;
    faults: readonly string[];
    seed?: number;
    say(line: string): void;
  }): Promise<{
    kind: string;
    env: Record<string, string>;
    urls: Record<string, string>;
    gpus: Record<string, string>;
    cost(): number;
    close(): Promise<void>;
  }>;
}

/** Troubles that a run may have to survive. Each is a fault of the simulators, whose size is the flag's number times `scale`. */
const TROUBLES = [
  {
    flags: "--scarce <seconds>",
    option: "scarce",
    fault: "sold_out",
    scale: 1_000,
    what: "Offer no machine for so long, from the first search on",
  },
  {
    flags: "--bad-hosts <n>",
    option: "bad-hosts",
    fault: "bad_hosts",
    scale: 1,
    what: "Give the first N hosts that are rented a dead GPU",
  },
  {
    flags: "--preempt-after <seconds>",
    option: "preempt-after",
    fault: "spot_taken",
    scale: 1_000,
    what: "Take each spot machine back after about so long (half to one and a half)",
  },
  {
    flags: "--price-moves <percent>",
    option: "price-moves",
    fault: "price_moves",
    scale: 1,
    what: "Change each price between search and order, to this percentage of it",
  },
] as const;
const MEASURE_MAX = 100_000_000;

export const sim: Command = {
  name: "sim",
  args: "[...providers]",
  summary: "Serve simulated providers, whose machines boot on this computer, to try svc at no cost",
  options: [
    { flags: "--port <n>", what: "Port of the first API; the others use the next ones (default: any free ports)" },
    {
      flags: "--fault <name>",
      what: "A fault to simulate, as NAME or NAME=N; `svc docs SIMULATORS` lists them",
      many: true,
    },
    ...TROUBLES.map(({ flags, what }) => ({ flags, what })),
    {
      flags: "--seed <n>",
      what: "Seed of the random choices, such as the time at which a spot machine is taken back (default: 1)",
    },
  ],
  exits: [["130", "ended by Ctrl-C"]],
  examples: [
    "svc sim",
    "svc sim market cloudvm --scarce 20 --bad-hosts 1 --preempt-after 60",
    "svc sim podhost market",
    "svc sim podhost --fault lost_after_create --fault listing_lag=5000",
  ],
  async run(input, io) {
    const port = whole(input, "port", { min: 0, max: 65_000 }) ?? 0;
    const troubles = TROUBLES.flatMap(({ option, fault, scale }) => {
      const measure = whole(input, option, { min: 1, max: MEASURE_MAX / scale });
      return measure === undefined ? [] : [`${fault}=${measure * scale}`];
    });
    const seed = whole(input, "seed", { min: 1, max: 2 ** 31 });
    const words = { providers: input.args, faults: [...(input.values.get("fault") ?? []), ...troubles] };
    const simulators = await load();
    const objection = simulators.objectionTo(words);
    if (objection !== null) throw usage(`${objection}.`, "See `svc docs SIMULATORS`.");
    const missing = simulators.missingPrograms();
    if (missing.length > 0)
      throw new SvcError("command_unavailable", {
        what: `Simulated machines need ${missing.join(" and ")}, which is not on this computer.`,
        instead: "Install it with your system's package manager.",
      });

    const ending = Promise.withResolvers<string>();
    let asked = false;
    io.takeSignals((signal) => {
      if (asked) process.exit(130);
      asked = true;
      ending.resolve(signal);
    });
    const served = await simulators
      .serveSims({
        ...words,
        port,
        ...(seed !== undefined && { seed }),
        say: (line) => io.err(line),
      })
      .catch(asPortTaken);
    try {
      if (input.json) await printJson(io, { env: served.env, urls: served.urls, machines: served.kind });
      else await io.out(`${[...unsets(served, io.env), exports(served.env)].join("\n")}\n`);
      io.err(input.json ? `Serving ${Object.keys(served.urls).join(", ")}.` : whatNow(served));
      const signal = await ending.promise;
      io.err(`Ending all machines. They would have cost ${dollars(served.cost())}.`);
      return signal === "SIGINT" ? 130 : 0;
    } finally {
      await served.close();
    }
  },
};

/** @throws `port_taken` if the port is in use, and otherwise the original error */
async function asPortTaken(error: unknown): Promise<never> {
  const { code, address, port } = error as { code?: unknown; address?: unknown; port?: unknown };
  if (code !== "EADDRINUSE" || typeof port !== "number") throw error;
  const { portTaken } = await import("../../api/port-holder.ts");
  throw await portTaken(typeof address === "string" ? address : "127.0.0.1", port, error);
}

/** A port other than the default: the command line must not reach a control plane that rents real machines. */
const PORT = 8781;

function whatNow({ kind, urls, gpus }: { kind: string; urls: Record<string, string>; gpus: Record<string, string> }) {
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
    "The folder SVC_HOME is deleted at the end. Ctrl-C ends all machines and prints what they would have cost.",
  ].join("\n");
}

/** Variables set in this environment that would override the simulators' credentials. */
function unsets({ env, urls }: { env: Record<string, string>; urls: Record<string, string> }, here: NodeJS.ProcessEnv) {
  const prefixes = Object.keys(urls).map((provider) => `${provider.toUpperCase()}_`);
  const names = Object.keys(here).filter(
    (name) => /^[A-Z_]+$/.test(name) && !(name in env) && prefixes.some((prefix) => name.startsWith(prefix)),
  );
  return names.length === 0 ? [] : [`unset ${names.join(" ")}`];
}

const exports = (env: Record<string, string>): string =>
  Object.entries(env)
    .map(([name, value]) => `export ${name}=${quoted(value)}`)
    .join("\n");

async function load(): Promise<SimModule> {
  const root = checkoutRoot();
  const path = [join(root, "test", "sim", "serve.ts"), join(root, "dist", "sim", "serve.mjs")].find((each) =>
    existsSync(each),
  );
  if (path === undefined)
    throw new SvcError("command_unavailable", {
      what: "The simulated providers are not part of this installation.",
      instead: "Reinstall svc: files of its package are missing.",
    });
  return (await import(pathToFileURL(path).href)) as SimModule;
}
