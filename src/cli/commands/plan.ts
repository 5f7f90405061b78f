import { costText } from "../../domain/money.ts";
import { longDuration } from "../../domain/long-duration.ts";
import { hourly } from "../../errors/dollars.ts";
import { PROVIDER_NAMES } from "../../providers/descriptors.ts";
import type { Plan, PlanOffer } from "../../schemas/plan.ts";
import { CHOICES, SPOT_CHOICES } from "../../schemas/names.ts";
import { oneOf, usage, value, whole } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { printJson, table } from "../text.ts";

export const plan: Command = {
  name: "plan",
  args: "<script> [...args]",
  summary: "Show the machines that a run could rent now, with price and order; rents nothing",
  options: [
    {
      flags: "--provider <provider>",
      what: `The provider of the machine: ${PROVIDER_NAMES.join(", ")} (default local)`,
    },
    { flags: "--gpus <gpus>", what: "cpu, MODEL or MODEL:COUNT (default cpu)" },
    {
      flags: "--candidate <candidate>",
      what: "A machine that the run may use, PROVIDER/GPUS[,FIELD=VALUE…]: region, price_cap, min_vram_gb, image, spot",
      many: true,
    },
    { flags: "--choose <choice>", what: `Which candidate is taken: ${CHOICES.join(", ")}` },
    { flags: "--spot <choice>", what: `Whether spot machines are used: ${SPOT_CHOICES.join(", ")}` },
    { flags: "--price-cap <usd>", what: "Dollars per hour: nothing dearer is rented" },
    { flags: "--region <region>", what: "A region, in the provider's own naming" },
    { flags: "--nodes <n>", what: "Number of machines" },
    { flags: "--wait-for-capacity <minutes>", what: "How long the run would wait for a machine" },
    { flags: "--max-runtime <minutes>", what: "Time limit of the run, for the maximum of its cost" },
  ],
  exits: [["1", "the run would be refused"]],
  examples: [
    "svc plan train.py --provider podhost --gpus A100",
    "svc plan train.py --candidate podhost/A100 --candidate market/H100,price_cap=2.5,spot=prefer --choose cheapest",
  ],
  async run(input, io) {
    const body = { spec: specOf(input, io) };
    const client = await runningClient(io);
    const told = client ? await client.plan(body as Parameters<typeof client.plan>[0]) : await ownPlan(io, body);
    if (input.json) await printJson(io, told);
    else await tell(told, io);
    return told.refusals.length > 0 ? 1 : 0;
  },
};

async function ownPlan(io: Io, body: { spec: Record<string, unknown> }): Promise<Plan> {
  const { checked } = await import("../../api/field-errors.ts");
  const { SubmitBody } = await import("../../schemas/spec.ts");
  const valid = checked(SubmitBody, body, "spec");
  return withOwnControlPlane(io, "look", (cp) => cp.plan(valid, { defaultProjectDir: process.cwd() }));
}

function specOf(input: Input, io: Io): Record<string, unknown> {
  const [entrypoint, ...args] = input.args;
  const candidates = input.values.get("candidate")?.map(candidateOf);
  const provider = oneOf(input, "provider", PROVIDER_NAMES);
  const gpus = value(input, "gpus");
  if (candidates !== undefined && provider !== undefined)
    throw usage("--provider and --candidate contradict each other.", "Write every machine as a --candidate.");
  const given = {
    provider,
    gpus,
    candidates,
    choose: oneOf(input, "choose", CHOICES),
    spot: oneOf(input, "spot", SPOT_CHOICES),
    price_cap: number("--price-cap", value(input, "price-cap")),
    region: value(input, "region"),
    nodes: whole(input, "nodes", { min: 1, max: 64 }),
    wait_for_capacity_minutes: whole(input, "wait-for-capacity", { min: 0, max: 10_080 }),
    max_runtime_minutes: whole(input, "max-runtime", { min: 0, max: 5_256_000 }),
  };
  const set = Object.entries(given).filter(([, of]) => of !== undefined);
  return { entrypoint, args, project_dir: io.env["PWD"] ?? process.cwd(), ...Object.fromEntries(set) };
}

const FIELDS = ["region", "price_cap", "min_vram_gb", "image", "spot"];
const NUMBERS = new Set(["price_cap", "min_vram_gb"]);

/** `market/H100:2,price_cap=2.5,spot=prefer` */
function candidateOf(text: string): Record<string, unknown> {
  const [machine = "", ...settings] = text.split(",");
  const slash = machine.indexOf("/");
  const provider = slash < 0 ? machine : machine.slice(0, slash);
  const gpus = slash < 0 ? undefined : machine.slice(slash + 1);
  if (!(PROVIDER_NAMES as readonly string[]).includes(provider))
    throw usage(
      `--candidate cannot be \`${text}\`.`,
      `It begins with one of ${PROVIDER_NAMES.join(", ")}, as in market/H100.`,
    );
  const fields = settings.map((setting) => {
    const equals = setting.indexOf("=");
    const name = setting.slice(0, Math.max(0, equals));
    if (!FIELDS.includes(name))
      throw usage(`--candidate cannot have \`${setting}\`.`, `Write FIELD=VALUE with one of ${FIELDS.join(", ")}.`);
    const of = setting.slice(equals + 1);
    return [name, NUMBERS.has(name) ? number(`${name} of --candidate`, of) : of] as const;
  });
  return { provider, ...(gpus === undefined ? {} : { gpus }), ...Object.fromEntries(fields) };
}

function number(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const n = /^\d{1,12}(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(n)) throw usage(`${name} must be a number, not \`${text}\`.`, "Write digits, as 2 or 2.5.");
  return n;
}

async function tell(told: Plan, io: Io): Promise<void> {
  await io.out(
    table(
      io,
      [
        { title: "TRY", right: true },
        { title: "PROVIDER" },
        { title: "GPUS" },
        { title: "OFFER", shrinks: true },
        { title: "$/H", right: true },
        { title: "SPOT", leaves: 1 },
        { title: "AGE", right: true, leaves: 2 },
        { title: "NOTE", shrinks: true },
      ],
      told.candidates.flatMap((candidate) => candidateRows(io, told, candidate)),
    ),
  );
  if (!io.tty) return;
  const { price_per_hour_usd: price, cost_max_usd: most } = told;
  if (price !== null && price > 0)
    io.err(
      `First ${hourly(price)}${most === null ? "" : `, at most ${costText({ cost_usd: most, machines: [] })}`}. Nothing was rented.`,
    );
  for (const warning of told.warnings) io.err(safeField(warning));
  for (const refusal of told.refusals) io.err(`Refused: ${safeField(refusal.message)} ${safeField(refusal.hint)}`);
}

function candidateRows(io: Io, told: Plan, candidate: Plan["candidates"][number]): string[][] {
  const place = told.order.indexOf(candidate.candidate);
  const turn = place < 0 ? (io.tty ? "-" : "") : String(place + 1);
  const head = [turn, candidate.provider, candidate.gpus];
  const { expected_start: start, refusal } = candidate;
  const starts =
    start === null
      ? ""
      : `started within ${longDuration(Math.round(start.seconds))} (${start.runs === 1 ? "1 run" : `${start.runs} runs`})`;
  const offers = told.offers.filter((offer) => offer.candidate === candidate.candidate);
  // Reasons that no single offer states.
  if (offers.length === 0) return [[...head, "", "", "", "", refusal?.message ?? starts]];
  return offers.map((offer, i) => [
    ...(i === 0 ? head : ["", candidate.provider, candidate.gpus]),
    factsOf(offer),
    io.tty ? hourlyOr(offer.price_per_hour_usd) : String(offer.price_per_hour_usd ?? ""),
    offer.spot ? "spot" : "",
    io.tty ? `${Math.round(offer.age_seconds)} s` : offer.age_seconds.toFixed(3),
    [offer.within_cap ? "" : "above the cap", i === 0 ? (refusal?.message ?? starts) : ""]
      .filter((part) => part !== "")
      .join("; "),
  ]);
}

const hourlyOr = (usd: number | null): string => (usd === null ? "unknown" : hourly(usd));
const factsOf = (offer: PlanOffer): string => Object.values(offer.facts).join(" · ") || offer.id;
