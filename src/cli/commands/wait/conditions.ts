// The conditions of `svc wait --for`: what is awaited, and whether a run has met it. Reads the store and asks no
// control plane, so that a restart of one changes nothing.

import { nearest } from "../../../domain/nearest.ts";
import { hasEnded } from "../../../schemas/names.ts";
import { usage } from "../../argv.ts";
import type { OpenReads } from "../../store.ts";

type Verdict = "met" | "not yet" | "never";
type Reads = Pick<OpenReads, "job" | "timeline" | "checkpoints" | "seriesList" | "seriesPoints">;

/** A condition on one run; it remembers what it has read. */
export interface Awaited {
  look(reads: Reads): Verdict;
  /** Why a run that has ended did not meet it, in one sentence. */
  whyNever(reads: Reads): string;
}

export const CONDITIONS = ["finished", "succeeded", "running", "checkpoint", "metric:"] as const;
const METRIC = /^metric:(?![<>=!~])(.+?)(?<![<>=!~\s])\s*(<=|>=|<|>)\s*([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)$/;
/** Extremes survive the thinning, so a threshold is never missed. */
const POINTS_MAX = 1_000;

const OPERATORS = {
  "<": (a: number, b: number) => a < b,
  "<=": (a: number, b: number) => a <= b,
  ">": (a: number, b: number) => a > b,
  ">=": (a: number, b: number) => a >= b,
} as const;
const isOperator = (text: string): text is keyof typeof OPERATORS => Object.hasOwn(OPERATORS, text);

/** Makes the condition for each run. Throws `usage`. */
export function conditionOf(text: string): (id: string) => Awaited {
  if (text === "finished") return (id) => statusCondition(id, (status) => hasEnded(status));
  if (text === "succeeded") return (id) => statusCondition(id, (status) => status === "succeeded");
  if (text === "running")
    return (id) => ({ look: (reads) => lookForStart(reads, id), whyNever: (reads) => endWords(reads, id) });
  if (text === "checkpoint")
    return (id) => ({
      look: (reads) => verdict(reads, id, () => reads.checkpoints(id).some(({ in_progress }) => in_progress !== true)),
      whyNever: (reads) => `${endWords(reads, id)} No checkpoint was saved.`,
    });
  const [, name, operator = "", value] = METRIC.exec(text) ?? [];
  if (name !== undefined && isOperator(operator))
    return (id) => new MetricCondition(id, name, (n) => OPERATORS[operator](n, Number(value)));
  const near = nearest(text, [...CONDITIONS]);
  throw usage(
    `--for cannot be \`${text}\`.`,
    `${near && !text.startsWith("metric") ? `Did you mean ${near}? ` : ""}Write finished, succeeded, running, checkpoint, or a metric in quotes: --for "metric:loss<0.1" (<, <=, >, >=).`,
  );
}

/** The status is read first: what is stored when a run has ended is complete. */
function verdict(reads: Reads, id: string, isMet: () => boolean): Verdict {
  const status = reads.job(id)?.status;
  if (isMet()) return "met";
  return status === undefined || hasEnded(status) ? "never" : "not yet";
}

const statusCondition = (
  id: string,
  isMet: (status: NonNullable<ReturnType<Reads["job"]>>["status"]) => boolean,
): Awaited => ({
  look: (reads) =>
    verdict(reads, id, () => {
      const job = reads.job(id);
      return job !== null && isMet(job.status);
    }),
  whyNever: (reads) => endWords(reads, id),
});

/** A short script may have started and ended between two reads; its journal still says that it ran. */
function lookForStart(reads: Reads, id: string): Verdict {
  return verdict(
    reads,
    id,
    () => reads.job(id)?.status === "running" || reads.timeline(id).transitions.some(({ to }) => to === "running"),
  );
}

function endWords(reads: Reads, id: string): string {
  const job = reads.job(id);
  if (job === null) return `Job ${id} was removed.`;
  return `Job ${id} ended: ${job.status}.${job.error === null ? "" : ` ${job.error.message}`}`;
}

class MetricCondition implements Awaited {
  readonly #id: string;
  readonly #name: string;
  readonly #isMet: (value: number) => boolean;
  /** Index of the first point that was not read. */
  #from = 0;

  constructor(id: string, name: string, isMet: (value: number) => boolean) {
    this.#id = id;
    this.#name = name;
    this.#isMet = isMet;
  }

  look(reads: Reads): Verdict {
    return verdict(reads, this.#id, () => this.#lookAtPoints(reads));
  }

  #lookAtPoints(reads: Reads): boolean {
    const series = reads.seriesList(this.#id).find(({ name }) => name === this.#name);
    if (series === undefined || series.points <= this.#from) return false;
    const [points] = reads.seriesPoints(this.#id, [{ id: series.id, from: this.#from }], POINTS_MAX);
    if (points === undefined) return false;
    this.#from = points.next;
    return points.value.some((value) => this.#isMet(Number(value)));
  }

  whyNever(reads: Reads): string {
    const names = reads.seriesList(this.#id).map(({ name }) => name);
    const end = endWords(reads, this.#id);
    if (names.includes(this.#name)) return `${end} No value of ${this.#name} met the condition.`;
    const near = nearest(this.#name, names);
    return `${end} It logged no metric ${this.#name}${near === null ? "" : `; did you mean ${near}?`}.`.replace(
      "?.",
      "?",
    );
  }
}
