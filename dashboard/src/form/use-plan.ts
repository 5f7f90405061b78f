import { useEffect, useState } from "react";
import type { Problem } from "../../../src/schemas/job.ts";
import type { Plan } from "../../../src/schemas/plan.ts";
import { api, asProblem } from "../api.ts";
import type { SubmitBodyLike } from "./run-values.ts";

/** Rest after the last letter before a provider is asked: its API counts questions. */
const REST_LOCAL_MS = 350;
const REST_REMOTE_MS = 900;

export interface PlanState {
  plan: Plan | null;
  /** Why there is no plan: fields that are no fields yet. */
  problem: Problem | null;
  /** A newer one is asked for; what is shown is of before. */
  busy: boolean;
}

interface Told {
  of: string;
  plan: Plan | null;
  problem: Problem | null;
}

/** The plan of what stands in the form, asked for again when that changes and then rests. */
export function usePlan(body: SubmitBodyLike): PlanState {
  const text = JSON.stringify(body);
  const ready = body.spec["entrypoint"] !== "";
  const remote = body.spec["provider"] !== "local";
  const [told, setTold] = useState<Told>({ of: "", plan: null, problem: null });
  useEffect(() => {
    if (!ready) return;
    const asked = new AbortController();
    const timer = setTimeout(
      () =>
        void api.plan(JSON.parse(text), asked.signal).then(
          (plan) => setTold({ of: text, plan, problem: null }),
          (error: unknown) => {
            if (!asked.signal.aborted) setTold({ of: text, plan: null, problem: asProblem(error) });
          },
        ),
      remote ? REST_REMOTE_MS : REST_LOCAL_MS,
    );
    return () => {
      clearTimeout(timer);
      asked.abort();
    };
  }, [text, ready, remote]);
  if (!ready) return { plan: null, problem: null, busy: false };
  return { plan: told.plan, problem: told.problem, busy: told.of !== text };
}
