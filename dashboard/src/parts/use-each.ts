import { useEffect, useRef, useState } from "react";
import type { JobRecord, Problem } from "../../../src/schemas/job.ts";
import { asProblem } from "../api.ts";

interface Failure {
  job: JobRecord;
  problem: Problem;
}

interface Work {
  atOnce: number;
  act: (job: JobRecord) => Promise<void>;
  /** All runs are done. */
  onDone: () => void;
}

interface Each {
  /** The runs to begin with, and after a failure those that failed: the others are done. */
  asked: readonly JobRecord[];
  /** How many are done; null while nothing is under way. */
  done: number | null;
  failed: readonly Failure[];
  begin: () => Promise<void>;
}

/** Does the same to each run of a dialog. It stops before the next run when the dialog is closed. */
export function useEach(jobs: readonly JobRecord[], { atOnce, act, onDone }: Work): Each {
  const [asked, setAsked] = useState(jobs);
  const [done, setDone] = useState<number | null>(null);
  const [failed, setFailed] = useState<readonly Failure[]>([]);
  const closed = useRef(false);
  useEffect(() => {
    closed.current = false;
    return () => void (closed.current = true);
  }, []);
  const begin = async () => {
    if (done !== null) return;
    setDone(0);
    setFailed([]);
    const found: Failure[] = [];
    const waiting = [...asked];
    const worker = async () => {
      while (!closed.current) {
        const job = waiting.shift();
        if (job === undefined) return;
        const problem = await act(job).then(() => null, asProblem);
        if (problem !== null) found.push({ job, problem });
        setDone((n) => (n ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    if (waiting.length > 0) return;
    if (found.length === 0) return onDone();
    setAsked(found.map(({ job }) => job));
    setFailed(found);
    setDone(null);
  };
  return { asked, done, failed, begin };
}
