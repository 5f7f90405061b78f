// `svc sim`: simulated providers on this computer, to try everything without cost. They belong to the tests and depend
// on nothing in the product, so they are loaded by path, from the program's folder.

import { SvcError } from "../../errors/index.ts";
import { usage, whole } from "../argv.ts";
import type { Command } from "../command.ts";
import { isListedUser } from "../../platform/user-home.ts";
import { printJson } from "../text.ts";
import { exports, HOME_GOES, lastWords, unsets, whatNow } from "./sim/instructions.ts";
import { asPortTaken, closeAround, load } from "./sim/simulators.ts";

/** Troubles that a run may have to survive. Each is a fault of the simulators, whose size is the flag's number times `scale`. */
const TROUBLES = [
  {
    flags: "--scarce <seconds>",
    option: "scarce",
    fault: "sold_out",
    scale: 1_000,
    what: "Offer no machine for this time, from the first search on",
  },
  {
    flags: "--bad-hosts <n>",
    option: "bad-hosts",
    fault: "bad_hosts",
    scale: 1,
    what: "Give the first N rented hosts a dead GPU",
  },
  {
    flags: "--preempt-after <seconds>",
    option: "preempt-after",
    fault: "spot_taken",
    scale: 1_000,
    what: "Preempt each spot machine after about this time (half of it to one and a half times)",
  },
  {
    flags: "--price-moves <percent>",
    option: "price-moves",
    fault: "price_moves",
    scale: 1,
    what: "Change each price between search and order to this percentage",
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
      what: "A fault to simulate, as NAME or NAME=N; an unknown name prints all names",
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
    if (objection !== null) throw usage(`${objection}.`, "`svc sim --help` has examples.");
    if (!isListedUser())
      throw new SvcError("command_unavailable", {
        what: `Simulated machines need a user whom the system's list of users knows: sshd lets no other user log in. It has no entry for uid ${process.getuid?.()}.`,
        instead: "Run it as a listed user, or add an entry (`useradd`). Nothing was started.",
      });
    const missing = simulators.missingPrograms();
    if (missing.length > 0)
      throw new SvcError("command_unavailable", {
        what: `Simulated machines need what this computer lacks: ${missing.join(", ")}.`,
        instead: `Install it, on Debian and Ubuntu by \`apt install ${missing.join(" ")}\`.`,
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
      if (input.json)
        await printJson(io, { env: served.env, urls: served.urls, machines: served.kind, home_deleted_at_end: true });
      else await io.out(`${[...unsets(served, io.env), exports(served.env)].join("\n")}\n`);
      io.err(input.json ? `Serving ${Object.keys(served.urls).join(", ")}. ${HOME_GOES}` : whatNow(served));
      const signal = await ending.promise;
      io.err(lastWords(served));
      return signal === "SIGINT" ? 130 : 0;
    } finally {
      await closeAround(served, (line) => io.err(line));
    }
  },
};
