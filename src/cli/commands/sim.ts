// `svc sim`: simulated providers on this computer, to try everything for nothing. They belong to the tests and know nothing of
// the product, so they are loaded by path, from where the program lies.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { SvcError } from "../../errors/index.ts";
import { usage, whole } from "../argv.ts";
import type { Command } from "../command.ts";
import { checkoutRoot } from "../root.ts";
import { printJson } from "../text.ts";

/** The part of test/sim/serve.ts that is used here. */
interface SimModule {
  objectionTo(words: { providers: readonly string[]; faults: readonly string[] }): string | null;
  missingPrograms(): string[];
  serveSims(options: {
    providers: readonly string[];
    port: number;
    faults: readonly string[];
    say(line: string): void;
  }): Promise<{
    kind: string;
    env: Record<string, string>;
    urls: Record<string, string>;
    cost(): number;
    close(): Promise<void>;
  }>;
}

export const sim: Command = {
  name: "sim",
  args: "[...providers]",
  summary: "Serve simulated providers, with machines that boot on this computer, to try everything for nothing",
  options: [
    { flags: "--port <n>", what: "Port of the first API, the next ones follow (any free ones)" },
    {
      flags: "--fault <name>",
      what: "A fault to commit, as NAME or NAME=N; docs/SIMULATORS.md lists them",
      many: true,
    },
  ],
  exits: [["130", "ended by Ctrl-C"]],
  examples: ["svc sim", "svc sim podhost market", "svc sim podhost --fault lost_after_create --fault listing_lag=5000"],
  async run(input, io) {
    const port = whole(input, "port", { min: 0, max: 65_000 }) ?? 0;
    const words = { providers: input.args, faults: input.values.get("fault") ?? [] };
    const simulators = await load();
    const objection = simulators.objectionTo(words);
    if (objection !== null) throw usage(`${objection}.`, "See docs/SIMULATORS.md.");
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
    const served = await simulators.serveSims({ ...words, port, say: (line) => io.err(line) });
    try {
      if (input.json) await printJson(io, { env: served.env, urls: served.urls, machines: served.kind });
      else await io.out(`${exports(served.env)}\n`);
      io.err(
        `Serving ${Object.keys(served.urls).join(", ")}. In another terminal, set the lines above and use svc as ever; end with Ctrl-C.`,
      );
      const signal = await ending.promise;
      io.err(`Ending all machines. They would have cost $${served.cost().toFixed(4)}.`);
      return signal === "SIGINT" ? 130 : 0;
    } finally {
      await served.close();
    }
  },
};

const exports = (env: Record<string, string>): string =>
  Object.entries(env)
    .map(([name, value]) => `export ${name}='${value.replaceAll("'", String.raw`'\''`)}'`)
    .join("\n");

async function load(): Promise<SimModule> {
  const root = checkoutRoot();
  const path = [join(root, "test", "sim", "serve.ts"), join(root, "dist", "sim.mjs")].find((each) => existsSync(each));
  if (path === undefined)
    throw new SvcError("command_unavailable", {
      what: "The simulated providers are not part of this installation.",
      instead: "Run svc sim from a checkout of the source code.",
    });
  return (await import(pathToFileURL(path).href)) as SimModule;
}
