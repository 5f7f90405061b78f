// `svc gpus`: the catalogue of GPU models, with this installation's own history.

import { PROVIDER_NAMES } from "../../providers/descriptors.ts";
import { oneOf } from "../argv.ts";
import { historyWords } from "../../domain/host-history.ts";
import type { HostStats } from "../../schemas/hosts.ts";
import type { Command } from "../command.ts";
import type { Io } from "../io.ts";
import { storeOfHome } from "../store.ts";
import { printJson, table } from "../text.ts";

export const gpus: Command = {
  name: "gpus",
  summary: "List known GPU models and who offers them; runs may also ask for models not listed",
  options: [
    {
      flags: "--provider <name>",
      what: `Only what this provider commonly offers: ${PROVIDER_NAMES.join(", ")}`,
      values: PROVIDER_NAMES,
    },
  ],
  examples: ["svc gpus", "svc gpus --provider market"],
  async run(input, io) {
    const provider = oneOf(input, "provider", PROVIDER_NAMES);
    const { listGpus } = await import("../../domain/gpus.ts");
    const list = listGpus(provider);
    const stats = await ownHistory(io);
    const own = (model: string): string =>
      stats
        .filter((each) => each.gpu === model && (provider === undefined || each.provider === provider))
        .map((each) => `${each.provider}: ${historyWords(each)}`)
        .join("; ");
    const told = list.some(({ model }) => own(model) !== "");
    if (input.json) await printJson(io, { gpus: list, history: stats });
    else
      await io.out(
        list.length
          ? table(
              io,
              [
                { title: "MODEL" },
                { title: "VRAM GB", right: true },
                { title: "PROVIDERS" },
                ...(told ? [{ title: "YOUR MACHINES" }] : []),
              ],
              list.map((g) => [
                g.model,
                String(g.vram_gb),
                g.providers.join(io.tty ? ", " : ","),
                ...(told ? [own(g.model)] : []),
              ]),
            )
          : "",
      );
    if (io.tty && !input.json && list.length === 0) io.err(`${provider} offers none of the listed GPUs; use gpus=cpu.`);
    return 0;
  },
};

/** How machines of this home have turned out; empty for a home that was never used. */
async function ownHistory(io: Io): Promise<HostStats["stats"]> {
  const reads = await storeOfHome(io);
  try {
    return reads?.hostStats().stats ?? [];
  } finally {
    reads?.close();
  }
}
