// The dialog before ended runs are deleted.

import { useRef } from "react";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { bytes } from "../../../src/domain/bytes.ts";
import { api, asProblem } from "../api.ts";
import { plural } from "../format.ts";
import { Link, runPath } from "../router.tsx";
import { titleOf } from "../status.ts";
import { store } from "../store.ts";
import { ProblemBanner } from "./banner.tsx";
import { Modal } from "./modal.tsx";
import { useEach } from "./use-each.ts";

const SHOWN = 50;

/** Asks before ended runs are deleted, and names each with its disk usage. `onDone`: all of them are gone. */
export function DeleteDialog(props: { jobs: readonly JobRecord[]; onClose: () => void; onDone?: () => void }) {
  const keep = useRef<HTMLButtonElement>(null);
  const remove = async ({ id }: JobRecord) => {
    try {
      await api.remove(id);
    } catch (error) {
      // Gone already: by another hand, or by a request whose answer was lost.
      if (asProblem(error).status !== 404) throw error;
    }
    store.trigger.jobRemoved({ id });
  };
  const onDone = props.onDone ?? props.onClose;
  const { asked, done, failed, begin } = useEach(props.jobs, { atOnce: 1, act: remove, onDone });
  const size = asked.reduce((sum, job) => sum + (job.disk_bytes ?? 0), 0);
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
      {failed[0] && (
        <>
          <p className="bad">{plural(failed.length, "run")} could not be deleted:</p>
          <ProblemBanner problem={failed[0].problem} />
        </>
      )}
      <div className="actions">
        <button ref={keep} type="button" className="button" onClick={props.onClose}>
          Keep
        </button>
        <button type="button" className="button danger" onClick={() => void begin()} aria-disabled={done !== null}>
          {done === null ? `Delete ${plural(asked.length, "run")}` : `Deleting ${done} of ${asked.length}…`}
        </button>
      </div>
    </Modal>
  );
}
