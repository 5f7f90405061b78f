// Previews what a run would rent, send and cost, without renting, starting or keeping anything. Uses the checks of a
// submission, and gathers every refusal instead of throwing the first.

import { DESCRIPTORS, runsHere } from "../providers/descriptors.ts";
import { asSvcError } from "../errors/index.ts";
import { assert } from "../errors/assert.ts";
import { exactDollars } from "../errors/dollars.ts";
import type { Account, Provider } from "../providers/provider.ts";
import type { LeftOut } from "../schemas/job.ts";
import type { Plan } from "../schemas/plan.ts";
import type { RunSpec } from "../schemas/spec.ts";
import {
  askCandidates,
  candidateOrder,
  refusalsOf,
  type AskedCandidate,
  type CandidateParts,
} from "./plan-candidates.ts";
import { hasUnknownOffers } from "../domain/unknown-offers.ts";
import { givenRate } from "../domain/budget.ts";
import { budgetLasts } from "./budget-lasts.ts";
import type { PricedCandidate } from "./check-budget.ts";
import { microOf } from "../domain/money.ts";
import { stopGraceSeconds } from "../domain/stop-grace.ts";
import { idleWindowMs } from "../steps/launch/runner-spec.ts";

const LARGEST_SHOWN = 5;
/** Larger trees take long enough to send that a person should know. */
const MUCH_BYTES = 500_000_000;

export interface ProjectMeasure {
  files: { path: string; size: number }[];
  bytes: number;
  leftOut: LeftOut | null;
  /** How many excluded files a person might miss. */
  missed: number;
}

export interface PlanParts extends CandidateParts {
  /** Throws `budget_too_small`. */
  checkEnough?: (priced: readonly PricedCandidate[]) => void;
  /** The checks of the submission, in order; each throws its refusal. */
  checks: readonly (() => void | Promise<void>)[];
  projectDir: string;
  /** Throws `project_dir_refused`. */
  measure: () => Promise<ProjectMeasure>;
  /** Throws a submission's refusals about installation and start. */
  preview: (files: ProjectMeasure["files"]) => Promise<Pick<Plan, "install" | "start">>;
}

/** Every problem becomes a refusal or a warning. */
export async function planRun(spec: RunSpec, parts: PlanParts): Promise<Plan> {
  const refusals: Plan["refusals"] = [];
  const add = (...all: Plan["refusals"]): void => {
    for (const refusal of all) if (!refusals.some((other) => isSame(other, refusal))) refusals.push(refusal);
  };
  const refuse = (thrown: unknown): null => {
    add(...refusalsOf(asSvcError(thrown)));
    return null;
  };
  for (const check of parts.checks) await Promise.resolve().then(check).catch(refuse);
  const askable = refusals.every(({ field }) => !ABOUT_MACHINE.has(field));
  const [asked, project] = await Promise.all([askCandidates(spec, parts, askable), parts.measure().catch(refuse)]);
  const told = project === null ? null : await parts.preview(project.files).catch(refuse);
  const order = candidateOrder(asked, spec.choose);
  try {
    parts.checkEnough?.(asked.map((each) => ({ spec: each.spec, rateMicro: rateOfAsked(each) })));
  } catch (e) {
    refuse(e);
  }
  const waits = (spec.wait_for_capacity_minutes ?? 0) > 0;
  for (const each of asked) add(...each.refusals.filter((refusal) => isFinal(refusal, order.length > 0 || waits)));
  // A spec has at least one candidate.
  const first = order[0] ?? asked[0];
  assert(first, "a run has no candidate");
  const { provider, account } = first;
  const price = first.candidate.price_per_hour_usd;
  const graceHours = stopGraceSeconds(spec) / 3_600;
  const runtimeHours = spec.max_runtime_minutes ? spec.max_runtime_minutes / 60 + graceHours : null;
  return {
    provider: first.spec.provider,
    gpus: first.spec.gpus,
    nodes: spec.nodes,
    project_dir: parts.projectDir,
    offers: asked.flatMap((each) => each.offers),
    offers_total: asked.reduce((sum, each) => sum + each.candidate.offers_total, 0),
    candidates: asked.map((each) => each.candidate),
    order: order.map((each) => each.candidate.candidate),
    price_per_hour_usd: price,
    cost_max_usd: atMost(price, runtimeHours, spec.budget_usd),
    budget_usd: spec.budget_usd ?? null,
    budget_lasts_seconds: price === null ? null : budgetLasts(spec, microOf(price)),
    history: first.candidate.history,
    code: project && {
      files: project.files.length,
      bytes: project.bytes,
      sent: !runsHere(first.spec.provider),
      largest: largestOf(project.files),
      left_out: project.leftOut,
    },
    install: told?.install ?? null,
    start: told?.start ?? null,
    account: account ? { name: account.name, balance_usd: account.balanceUsd } : null,
    stops: stopsOf(first.spec, provider),
    warnings: [
      ...warningsOf(first.spec, { provider, account, project, price }),
      ...searchWarnings(spec, asked, order.length),
    ],
    refusals,
  };
}

/** The least of what limits the costs; null if nothing does. */
function atMost(price: number | null, hours: number | null, budget: number | undefined): number | null {
  if (price === 0) return 0;
  const limits = [
    ...(price === null || hours === null ? [] : [price * hours]),
    ...(budget === undefined ? [] : [budget]),
  ];
  return limits.length === 0 ? null : Math.min(...limits);
}

/** The rate of all nodes together, per hour: the spec's where the provider reports none; null if it is unknown. */
function rateOfAsked({ candidate, provider, spec }: AskedCandidate): number | null {
  if (provider?.info.capabilities.bills === false) return 0;
  if (candidate.price_per_hour_usd !== null) return microOf(candidate.price_per_hour_usd);
  const given = givenRate(spec);
  return given === null ? null : given * spec.nodes;
}

const largestOf = (files: ProjectMeasure["files"]) =>
  files
    .toSorted((a, b) => b.size - a.size)
    .slice(0, LARGEST_SHOWN)
    .map(({ path, size }) => ({ path, size }));

function missedWords({ provider }: RunSpec, { missed, leftOut }: ProjectMeasure): string {
  const [first] = leftOut?.names ?? [];
  const what = missed === 1 ? "One entry of the project is" : `${missed} entries of the project are`;
  const where = runsHere(provider) ? "no part of the recorded code" : "not sent";
  return `${what} ${where}${first ? `, ${missed > 1 ? "the first of them " : ""}${first.path}: ${first.why}` : ""}.`;
}

/** With one of these refusals, asking the provider is pointless. */
const ABOUT_MACHINE = new Set<string | null>(["spec.provider", "spec.gpus", "spec.nodes", "spec.region", "spec.image"]);

/** The count of project files may repeat the refusal of a check, but without its field. */
const isSame = (one: Plan["refusals"][number], other: Plan["refusals"][number]): boolean =>
  one.code === other.code && (one.field === other.field || one.message === other.message);

/** Refusals of a provider that may change later, or do not apply to another candidate. */
const OF_NOW: ReadonlySet<string> = new Set([
  "no_offer",
  "offers_unknown",
  "price_cap_exceeded",
  "price_unknown",
  "provider_error",
  "provider_unreachable",
  "no_funds",
  "no_quota",
]);

/** Whether it refuses the run, and not only a candidate of it for now. */
const isFinal = ({ code }: Plan["refusals"][number], mayStart: boolean): boolean => !mayStart || !OF_NOW.has(code);

/** Only a run with other candidates, or with time to wait, can continue without these. */
function searchWarnings(spec: RunSpec, asked: readonly AskedCandidate[], able: number): string[] {
  const { wait_for_capacity_minutes: wait = 0 } = spec;
  const unknown = asked.filter(({ candidate }) => hasUnknownOffers(candidate));
  if (unknown.length > 0) {
    const names = unknown.map(({ candidate: { provider, gpus } }) => `${provider} ${gpus}`).join(", ");
    return [`The offers of ${names} are not known yet: order and price may change. Plan again in ten seconds.`];
  }
  if (able > 0 || asked.every(({ candidate }) => candidate.refusal === null)) return [];
  return wait > 0 ? [`No candidate has a machine now. The run would wait for up to ${minutes(wait)}, at no cost.`] : [];
}

const minutes = (n: number): string => (n === 1 ? "1 minute" : n % 60 === 0 && n > 0 ? hours(n / 60) : `${n} minutes`);
const hours = (n: number): string => (n === 1 ? "1 hour" : `${n} hours`);

function stopsOf(spec: RunSpec, provider: Provider | undefined): string[] {
  const idleMinutes = idleWindowMs(spec) / 60_000;
  return [
    "The script ends, well or badly.",
    ...(spec.max_runtime_minutes ? [`It has run for ${minutes(spec.max_runtime_minutes)} (max_runtime_minutes).`] : []),
    ...(idleMinutes > 0
      ? [`Neither output nor work on CPU or GPU for ${minutes(idleMinutes)} (idle_timeout_minutes).`]
      : []),
    ...(spec.budget_usd === undefined
      ? []
      : [`Its budget of ${exactDollars(spec.budget_usd)} is used up, less what svc keeps for its end (budget_usd).`]),
    ...(spec.terminate_on_exit ? ["The control plane is ended (terminate_on_exit)."] : []),
    "A user kills it: here, with `svc kill`, or through an SDK.",
    ...(provider ? [provider.info.stops_by_itself] : []),
    `Where svc ends it, the script gets SIGTERM first, and SIGKILL after ${stopGraceSeconds(spec)} s (stop_grace_seconds).`,
  ];
}

interface Found {
  provider: Provider | undefined;
  account: Account | null;
  project: ProjectMeasure | null;
  price: number | null;
}

function warningsOf(spec: RunSpec, { provider, account, project, price }: Found): string[] {
  const told = provider?.info.capabilities.reports_price ?? true;
  const { capabilities, interruptionNoticeSeconds: notice } = DESCRIPTORS[spec.provider];
  const paid = capabilities.bills;
  const balance = account?.balanceUsd ?? null;
  const lasts = balance !== null && price !== null && price > 0 ? balance / price : null;
  return [
    ...(account?.warnings ?? []),
    ...argumentWarnings(spec.args),
    ...(lasts !== null && lasts < 24
      ? [`The account has $${(balance ?? 0).toFixed(2)}, which lasts for ${lasts.toFixed(1)} hours at this price.`]
      : []),
    ...(paid && !told
      ? [
          `${spec.provider} reports no price: cost_usd stays 0${spec.price_cap === undefined ? "" : " and the price cap is not enforced"}. See its bill for the cost.`,
        ]
      : []),
    ...(paid && told && spec.price_cap === undefined ? ["Without a price cap, svc accepts any price."] : []),
    ...(paid && !spec.max_runtime_minutes && spec.budget_usd === undefined
      ? [
          idleWindowMs(spec) > 0
            ? "Without a time limit and a budget, it runs until the script ends or stays idle."
            : "Nothing ends it but its script and you: it has no time limit, no budget and no idle timeout.",
        ]
      : []),
    ...(notice !== null && spec.stop_grace_seconds > notice
      ? [
          `A spot machine is taken back after ${notice} s, which is shorter than its stop_grace_seconds (${spec.stop_grace_seconds}).`,
        ]
      : []),
    ...(paid && !spec.terminate_on_exit
      ? [
          `It continues when the control plane ends, and costs money. ${minutes(spec.orphan_grace_minutes)} after its script has ended or idles, its machine ends itself (orphan_grace_minutes).`,
        ]
      : []),
    ...(!runsHere(spec.provider) && project && project.bytes > MUCH_BYTES
      ? [`${(project.bytes / 1e9).toFixed(1)} GB are sent before the run begins, while the machine is paid for.`]
      : []),
    ...(project && project.missed > 0 ? [missedWords(spec, project)] : []),
  ];
}

/** A single argument that looks like several was probably typed as a shell command line. */
function argumentWarnings(args: readonly string[]): string[] {
  const joined = args.filter((arg) => /^-{1,2}[A-Za-z][^\s=]*\s|\s--?[A-Za-z]/.test(arg));
  if (joined.length === 0) return [];
  const which = joined.length === 1 ? "One argument holds" : `${joined.length} arguments hold`;
  return [
    `${which} blanks followed by what looks like an option. The script gets it as one argument, not as several: give each word by itself, in \`args\` as one item.`,
  ];
}
