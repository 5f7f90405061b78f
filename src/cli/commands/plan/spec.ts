// Builds the run spec from the flags of `svc plan`.

import { resolve } from "node:path";
import { isCpu } from "../../../domain/gpus.ts";
import { DESCRIPTORS, PROVIDER_NAMES } from "../../../providers/descriptors.ts";
import { CHOICES, SPOT_CHOICES } from "../../../schemas/names.ts";
import { oneOf, usage, value, whole } from "../../argv.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";

/** Those that a GPU can be asked of. */
const WITH_GPUS = PROVIDER_NAMES.filter((name) => DESCRIPTORS[name].capabilities.gpus !== "none");

export function specOf(input: Input, io: Io): Record<string, unknown> {
  const [entrypoint, ...args] = input.args;
  const candidates = input.values.get("candidate")?.map(candidateOf);
  const provider = oneOf(input, "provider", PROVIDER_NAMES);
  const gpus = value(input, "gpus");
  if (candidates !== undefined && provider !== undefined)
    throw usage("--provider and --candidate contradict each other.", "Write every machine as a --candidate.");
  if (candidates === undefined && provider === undefined && gpus !== undefined && !isCpu(gpus))
    throw usage(
      `--gpus ${gpus} needs a provider.`,
      `Add --provider with one of ${WITH_GPUS.join(", ")}, or write --gpus cpu for this computer.`,
    );
  const given = {
    provider,
    gpus,
    candidates,
    choose: oneOf(input, "choose", CHOICES),
    spot: oneOf(input, "spot", SPOT_CHOICES),
    price_cap: number("--price-cap", value(input, "price-cap")),
    budget_usd: number("--budget-usd", value(input, "budget-usd")),
    rate_usd_per_hour: number("--rate-usd-per-hour", value(input, "rate-usd-per-hour")),
    region: value(input, "region"),
    nodes: whole(input, "nodes", { min: 1, max: 64 }),
    wait_for_capacity_minutes: whole(input, "wait-for-capacity", { min: 0, max: 10_080 }),
    max_runtime_minutes: whole(input, "max-runtime", { min: 0, max: 5_256_000 }),
  };
  const set = Object.entries(given).filter(([, of]) => of !== undefined);
  const here = io.env["PWD"] ?? process.cwd();
  const project_dir = resolve(here, value(input, "project-dir") ?? "");
  return { entrypoint, args, project_dir, ...Object.fromEntries(set) };
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

export function number(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const n = /^\d{1,12}(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(n)) throw usage(`${name} must be a number, not \`${text}\`.`, "Write digits, such as 2 or 2.5.");
  return n;
}
