// `svc plan`: the machines that a run could rent now. Its flags are read in `plan/spec.ts`, its answer is printed by
// `plan/table.ts`.

import { PROVIDER_NAMES } from "../../providers/descriptors.ts";
import type { Plan } from "../../schemas/plan.ts";
import { CHOICES, SPOT_CHOICES } from "../../schemas/names.ts";
import type { Command } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import { hasUnknownOffers, OFFERS_KNOWN_MS } from "../../domain/unknown-offers.ts";
import { sleep, type Io } from "../io.ts";
import { printJson } from "../text.ts";
import { specOf } from "./plan/spec.ts";
import { tell } from "./plan/table.ts";

export const plan: Command = {
  name: "plan",
  args: "<script> [...args]",
  summary: "Show the machines that a run could rent now, with price and order; rents nothing",
  options: [
    {
      flags: "--provider <provider>",
      what: `The provider of the machine: ${PROVIDER_NAMES.join(", ")} (default local)`,
      values: PROVIDER_NAMES,
    },
    {
      flags: "--project-dir <folder>",
      what: "The folder with the script, whose files are sent (default: this folder)",
    },
    { flags: "--gpus <gpus>", what: "cpu, MODEL or MODEL:COUNT (default cpu)" },
    {
      flags: "--candidate <candidate>",
      what: "A machine that the run may use, PROVIDER/GPUS[,FIELD=VALUE…]: region, price_cap, min_vram_gb, image, spot",
      many: true,
    },
    { flags: "--choose <choice>", what: `Which candidate is taken: ${CHOICES.join(", ")}`, values: CHOICES },
    {
      flags: "--spot <choice>",
      what: `Whether spot machines are used: ${SPOT_CHOICES.join(", ")}`,
      values: SPOT_CHOICES,
    },
    { flags: "--price-cap <usd>", what: "Highest price of a machine, in dollars per hour" },
    { flags: "--budget-usd <usd>", what: "Dollars for all that the run costs, failed machines included" },
    { flags: "--rate-usd-per-hour <usd>", what: "Price of one machine, for a provider that reports none" },
    { flags: "--region <region>", what: "A region, in the provider's own naming" },
    { flags: "--nodes <n>", what: "Number of machines" },
    { flags: "--wait-for-capacity <minutes>", what: "How long the run would wait for a machine" },
    { flags: "--max-runtime <minutes>", what: "Time limit of the run; the highest cost is computed with it" },
  ],
  exits: [["1", "the run would be refused"]],
  examples: [
    "svc plan train.py --provider podhost --gpus A100",
    "svc plan train.py --provider market --gpus RTX4090 --budget-usd 2",
    "svc plan train.py --candidate podhost/A100 --candidate market/H100,price_cap=2.5,spot=prefer --choose cheapest",
  ],
  async run(input, io) {
    const body = { spec: specOf(input, io) };
    const client = await runningClient(io);
    const told = client
      ? await whole(io, () => client.plan(body as Parameters<typeof client.plan>[0]))
      : await ownPlan(io, body);
    if (input.json) await printJson(io, told);
    else await tell(told, io);
    return told.refusals.length > 0 ? 1 : 0;
  },
};

async function ownPlan(io: Io, body: { spec: Record<string, unknown> }): Promise<Plan> {
  const { checked } = await import("../../api/field-errors.ts");
  const { SubmitBody } = await import("../../schemas/spec.ts");
  const valid = checked(SubmitBody, body, "spec");
  return withOwnControlPlane(io, "look", (cp) => whole(io, () => cp.plan(valid, { defaultProjectDir: process.cwd() })));
}

/** A command prints once, so it waits for offers that are not known yet. */
async function whole(io: Io, ask: () => Promise<Plan>): Promise<Plan> {
  const told = await ask();
  if (!told.candidates.some(hasUnknownOffers)) return told;
  await sleep(OFFERS_KNOWN_MS, io.interrupted);
  return io.interrupted.aborted ? told : ask();
}
