// The dialog before ended runs are deleted.

import { useRef, useState } from "react";
import type { JobRecord, Problem } from "../../../src/schemas/job.ts";
import { bytes } from "../../../src/domain/bytes.ts";
import { api, asProblem } from "../api.ts";
import { plural } from "../format.ts";
import { Link, runPath } from "../router.tsx";
import { titleOf } from "../status.ts";
import { store } from "../store.ts";
import { ProblemBanner } from "./banner.tsx";
import { Modal, useClosed } from "./modal.tsx";

const SHOWN = 50;

/** Asks before ended runs are deleted, and names each with its disk usage. `onDone`: all of them are gone. */
export function DeleteDialog(props: { jobs: readonly JobRecord[]; onClose: () => void; onDone?: () => void }) {
  const keep = useRef<HTMLButtonElement>(null);
  // After a failure only the runs that are still there: the others cannot be deleted again.
  const [asked, setAsked] = useState(props.jobs);
  const [done, setDone] = useState<number | null>(null);
  const isClosed = useClosed();
  const [problems, setProblems] = useState<Problem[]>([]);
  const size = asked.reduce((sum, job) => sum + (job.disk_bytes ?? 0), 0);
  const remove = async () => {
    if (done !== null) return;
    setDone(0);
    setProblems([]);
    const failed: { job: JobRecord; problem: Problem }[] = [];
    for (const job of asked) {
      if (isClosed()) return;
      const problem = await api.remove(job.id).then(() => null, asProblem);
      // Gone already: by another hand, or by a request whose answer was lost.
      if (problem === null || problem.status === 404) store.trigger.jobRemoved({ id: job.id });
      else failed.push({ job, problem });
      setDone((n) => (n ?? 0) + 1);
    }
    if (failed.length === 0) return (props.onDone ?? props.onClose)();
    setAsked(failed.map(({ job }) => job));
    setProblems(failed.map(({ problem }) => problem));
    setDone(null);
  };
  return (
    <Modal titleId="delete-title" wide first={keep} onClose={props.onClose}>
      <h2 id="delete-title">Delete {plural(asked.length, "run")}?</h2>
      <p>
        Logs, metrics, checkpoints and code that no other run uses are deleted on this computer
        {size > 0 && <>: {bytes(size)}</>}. The cost of the runs stays in the totals, and copies in sinks stay. This
        cannot be undone.
      </p>
      <p>
        To keep a run with some of its checkpoints, delete the others instead: each run below leads to its checkpoints.
      </p>
      <ul className="plain kill-list" tabIndex={0} aria-label="Runs">
        {asked.slice(0, SHOWN).map((job) => (
          <li key={job.id}>
            <Link href={runPath(job.id, "checkpoints")} onClick={props.onClose}>
              <bdi>{titleOf(job)}</bdi>
            </Link>{" "}
            <code>{job.id}</code>
            <span className="quiet"> {job.disk_bytes === null ? "size unknown" : bytes(job.disk_bytes)}</span>
          </li>
        ))}
        {asked.length > SHOWN && <li className="quiet">and {asked.length - SHOWN} more</li>}
      </ul>
      {problems[0] && (
        <>
          <p className="bad">{plural(problems.length, "run")} could not be deleted:</p>
          <ProblemBanner problem={problems[0]} />
        </>
      )}
      <div className="actions">
        <button ref={keep} type="button" className="button" onClick={props.onClose}>
          Keep
        </button>
        <button type="button" className="button danger" onClick={() => void remove()} aria-disabled={done !== null}>
          {done === null ? `Delete ${plural(asked.length, "run")}` : `Deleting ${done} of ${asked.length}…`}
        </button>
      </div>
    </Modal>
  );
}
