// `svc doctor`: checks this computer, and says how to get what is missing. The checks are in `doctor/`.

import { safeField } from "../../domain/terminal-text.ts";
import type { Command } from "../command.ts";
import type { Io } from "../io.ts";
import { printJson } from "../text.ts";
import type { Check } from "./doctor/check.ts";
import { port, proc, store } from "./doctor/control-plane.ts";
import { disk, homeFolder, machineKey, placeOfHome } from "./doctor/home.ts";
import { node, python, rsync, simulator, ssh } from "./doctor/programs.ts";

export const doctor: Command = {
  name: "doctor",
  summary: "Check that this computer has everything svc needs, and say how to get what is missing",
  options: [],
  exits: [["1", "something required is missing"]],
  examples: ["svc doctor"],
  async run(input, io) {
    const home = io.home();
    const checks = await Promise.all([
      node(),
      python(io),
      ssh(io),
      rsync(io),
      simulator(),
      homeFolder(home),
      placeOfHome(home),
      Promise.resolve(machineKey(home)),
      disk(home),
      store(io),
      port(home),
      proc(),
    ]);
    const failed = checks.some((c) => c.status === "fail");
    if (input.json) await printJson(io, { ok: !failed, checks });
    else for (const c of checks) await io.out(line(c, io));
    return failed ? 1 : 0;
  },
};

function line(c: Check, io: Io): string {
  if (!io.tty) return `${c.status}\t${c.name}\t${safeField(c.found)}\t${safeField(c.fix)}\n`;
  const colour = c.status === "ok" ? 32 : c.status === "warn" ? 33 : 31;
  const word = io.color ? `\u001b[${colour}m${c.status.padEnd(4)}\u001b[0m` : c.status.padEnd(4);
  return `${word}  ${c.name.padEnd(12)} ${safeField(c.found)}\n${c.fix ? `      ${" ".repeat(12)} ${safeField(c.fix)}\n` : ""}`;
}
