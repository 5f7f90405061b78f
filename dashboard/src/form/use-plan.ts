// Asks the server for the plan of the form while it is filled in, with a pause after each change.

import { hasUnknownOffers, OFFERS_KNOWN_MS } from "../../../src/domain/unknown-offers.ts";
import { runsHere } from "../../../src/providers/descriptors.ts";
import { useEffect, useState } from "react";
import type { Problem } from "../../../src/schemas/job.ts";
import type { Plan } from "../../../src/schemas/plan.ts";
import { api, asProblem } from "../api.ts";
import type { SubmitBodyLike } from "./run-values.ts";

/** Pause after the last keystroke before a provider is asked: its API limits requests. */
const REST_LOCAL_MS = 350;
const REST_REMOTE_MS = 900;

export interface PlanState {
  plan: Plan | null;
  /** The reason for a missing plan: fields that are still invalid. */
  problem: Problem | null;
  /** A newer plan was requested; the shown one is older. */
  busy: boolean;
}

interface Told {
  of: string;
  plan: Plan | null;
  problem: Problem | null;
}

function sameOrder(one: string, other: string): boolean {
  const [a, b] = [one, other].map((text) => (JSON.parse(text) as SubmitBodyLike).spec);
  const same = (name: string): boolean => JSON.stringify(a?.[name]) === JSON.stringify(b?.[name]);
  return ["provider", "gpus", "nodes", "candidates"].every(same);
}

/** The plan for the form's values, requested again when they change and then rest. */
export function usePlan(body: SubmitBodyLike): PlanState {
  const text = JSON.stringify(body);
  const ready = body.spec["entrypoint"] !== "";
  const remote = !runsHere(String(body.spec["provider"])) || body.spec["candidates"] !== undefined;
  const [told, setTold] = useState<Told>({ of: "", plan: null, problem: null });
  useEffect(() => {
    if (!ready) return;
    const asked = new AbortController();
    const ask = (): void =>
      void api.plan(JSON.parse(text), asked.signal).then(
        (plan) => {
          if (asked.signal.aborted) return;
          setTold({ of: text, plan, problem: null });
          if (plan.candidates.some(hasUnknownOffers)) timer = setTimeout(ask, OFFERS_KNOWN_MS);
        },
        (error: unknown) => {
          if (!asked.signal.aborted) setTold({ of: text, plan: null, problem: asProblem(error) });
        },
      );
    let timer = setTimeout(ask, remote ? REST_REMOTE_MS : REST_LOCAL_MS);
    return () => {
      clearTimeout(timer);
      asked.abort();
    };
  }, [text, ready, remote]);
  if (!ready) return { plan: null, problem: null, busy: false };
  // Prices of another provider or of other GPUs do not apply here.
  const isOf = told.plan === null || sameOrder(told.of, text);
  return { plan: isOf ? told.plan : null, problem: told.problem, busy: told.of !== text };
}
