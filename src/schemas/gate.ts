// The results of the gate (runner/svc_gate). The machine is not trusted: every field has limits, and a missing field
// counts as unknown.

import { z } from "zod";

const text = (max: number) => z.string().max(max);
const count = z.int().min(0);
const rate = z.number().min(0);
const list = <T extends z.ZodType>(item: T) => z.array(item).max(64);

/** The result of each probe. Null means unknown. */
const FOUND = {
  gpus: z.object({
    tool: z.boolean(),
    gpus: list(
      z.object({
        uuid: text(80),
        bus: text(40),
        memory_mib: count.nullable(),
        free_mib: count.nullable(),
        driver: text(40),
        name: text(200),
      }),
    ),
    fault: z.object({ exit: z.int(), words: text(300) }).nullable(),
  }),
  gpu_health: z.object({
    gpus: list(
      z.object({
        uuid: text(80),
        uncorrected: count.nullable(),
        pending: z.boolean().nullable(),
        failure: z.boolean().nullable(),
      }),
    ),
  }),
  cuda: z.object({
    library: z.boolean(),
    code: z.int().nullable(),
    name: text(80).nullable(),
    /** The number of `cuDriverGetVersion`: 12080 is 12.8. */
    driver: count.nullable(),
    gpus: count.nullable(),
  }),
  xid: z.object({ readable: z.boolean(), xids: list(z.object({ bus: text(40), xid: count, seconds_ago: rate })) }),
  shm: z.object({ bytes: count, free_bytes: count }),
  disk: z.object({ free_bytes: count, bytes: count, write_bytes_per_second: rate.nullable() }),
  download: z.object({ host: text(300).nullable(), bytes_per_second: rate.nullable() }),
  torch_found: z.object({ version: text(40).nullable(), cuda: text(10).nullable() }),
  torch: z.object({
    gpus: list(z.object({ name: text(200), tflops: rate.nullable(), right: z.boolean().nullable() })),
    all_reduce: z
      .object({ right: z.boolean().nullable(), bytes_per_second: rate.nullable(), error: text(300).nullable() })
      .nullable(),
  }),
};

export type ProbeName = keyof typeof FOUND;
export const PROBE_NAMES = Object.keys(FOUND) as ProbeName[];

/** A probe's answer: its results, the message of its failure, or a timeout. */
export type ProbeAnswer<T> = { ok: T } | { error: string } | { late: true };
export type GateAnswers = { [N in ProbeName]?: ProbeAnswer<z.infer<(typeof FOUND)[N]>> };

const Row = z.object({
  probe: text(40),
  ok: z.unknown().optional(),
  error: text(500).optional(),
  late: z.literal(true).optional(),
});

export const GateLook = z.object({
  started: z.boolean(),
  over: z.boolean(),
  /** Milliseconds since the start of the gate; null if it has not started. */
  age_ms: count.nullable(),
  /** Milliseconds since the epoch, by the machine's clock. */
  now_ms: z.number(),
  results: list(Row),
  /** Probes that an earlier poll has reported. */
  told: list(text(40)),
});
export type GateLook = z.infer<typeof GateLook>;

/** The answers by probe. A malformed answer counts as a failed probe. */
export function answersOf({ results }: Pick<GateLook, "results">): GateAnswers {
  const answers: Record<string, ProbeAnswer<unknown>> = {};
  for (const { probe, ok, error, late } of results) {
    if (!isProbe(probe)) continue;
    const found = FOUND[probe].safeParse(ok);
    answers[probe] = late
      ? { late }
      : found.success
        ? { ok: found.data }
        : { error: error ?? "its answer cannot be read" };
  }
  return answers;
}

const isProbe = (name: string): name is ProbeName => Object.hasOwn(FOUND, name);
