import { PROVIDER_NAMES } from "../../providers/descriptors.ts";
import { oneOf } from "../argv.ts";
import type { Command } from "../command.ts";
import { printJson, table } from "../text.ts";

export const gpus: Command = {
  name: "gpus",
  summary: "List known GPU models and who offers them; runs may also ask for models not listed",
  options: [
    { flags: "--provider <name>", what: `Only what this provider commonly offers: ${PROVIDER_NAMES.join(", ")}` },
  ],
  examples: ["svc gpus", "svc gpus --provider market"],
  async run(input, io) {
    const provider = oneOf(input, "provider", PROVIDER_NAMES);
    const { listGpus } = await import("../../domain/gpus.ts");
    const list = listGpus(provider);
    if (input.json) await printJson(io, { gpus: list });
    else
      await io.out(
        list.length
          ? table(
              io,
              [{ title: "MODEL" }, { title: "VRAM GB", right: true }, { title: "PROVIDERS" }],
              list.map((g) => [g.model, String(g.vram_gb), g.providers.join(io.tty ? ", " : ",")]),
            )
          : "",
      );
    if (io.tty && !input.json && list.length === 0) io.err(`${provider} offers none of the listed GPUs; use gpus=cpu.`);
    return 0;
  },
};
