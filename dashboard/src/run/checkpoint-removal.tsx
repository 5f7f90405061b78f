// Deletes selected checkpoints of an ended run: the bar with the selection, and the dialog that tells what it frees.

import { useEffect, useRef, useState } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import { freedWords } from "../../../src/domain/freed-words.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import type { Problem } from "../../../src/schemas/job.ts";
import type { CheckpointsRemoved } from "../../../src/schemas/removal.ts";
import { asProblem } from "../api.ts";
import { plural } from "../format.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { Modal } from "../parts/modal.tsx";
import { readRunAgain } from "../sync.ts";
import { runApi } from "./run-api.ts";

/** The most names that one request of the API takes. */
export const PICKED_MAX = 200;

/** A complete checkpoint, or a file that belongs to none: a person can select both. */
export interface Removable {
  name: string;
  bytes: number;
}

const sizeOf = (all: readonly Removable[]): number => all.reduce((sum, each) => sum + each.bytes, 0);

export function PickedBar(props: { picked: readonly Removable[]; onClear: () => void; onDelete: () => void }) {
  const { picked } = props;
  const isTooMany = picked.length > PICKED_MAX;
  return (
    <div className="selection" role="region" aria-label="Selected checkpoints">
      <span>
        <strong>{picked.length}</strong> selected <span className="quiet">· {bytes(sizeOf(picked))}</span>
        {isTooMany && <span className="quiet"> · up to {PICKED_MAX} can be deleted at once</span>}
      </span>
      <button type="button" className="button" onClick={props.onClear}>
        Clear
      </button>
      {!isTooMany && (
        <button type="button" className="button danger" onClick={props.onDelete}>
          Delete…
        </button>
      )}
    </div>
  );
}

/** Asks before checkpoints are deleted. The server is asked first whether they can be, and how much that frees. */
export function RemovalDialog(props: {
  jobId: string;
  picked: readonly Removable[];
  /** Something that a person should know about this selection. */
  caution: string | null;
  onClose: () => void;
  onDone: (removed: CheckpointsRemoved) => void;
}) {
  const { jobId, onClose, onDone } = props;
  const keep = useRef<HTMLButtonElement>(null);
  const [asked] = useState(props.picked);
  const [measured, setMeasured] = useState<CheckpointsRemoved | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const send = (dryRun: boolean) =>
    runApi.removeCheckpoints(
      jobId,
      asked.map(({ name }) => name),
      dryRun,
    );
  const measure = useRef(() => send(true));
  useEffect(() => {
    let left = false;
    measure.current().then(
      (answer) => !left && setMeasured(answer),
      (error: unknown) => !left && setProblem(asProblem(error)),
    );
    return () => void (left = true);
  }, []);
  const what = plural(asked.length, "checkpoint");
  const remove = async () => {
    if (busy || measured === null) return;
    setBusy(true);
    setProblem(null);
    try {
      const removed = await send(false);
      readRunAgain(jobId);
      onDone(removed);
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Modal titleId="removal-title" wide first={keep} onClose={onClose}>
      <h2 id="removal-title">
        Delete {what}, {bytes(sizeOf(asked))}?
      </h2>
      <p>
        {measured !== null ? `${freedWords(measured)} ` : problem === null && "Measuring the disk space… "}
        Copies in sinks stay. This cannot be undone.
      </p>
      {props.caution !== null && <p>{props.caution}</p>}
      <ul className="plain kill-list" tabIndex={0} aria-label="Checkpoints to delete">
        {asked.map((each) => (
          <li key={each.name}>
            <code>
              <bdi>{inOrder(each.name)}</bdi>
            </code>
            <span className="quiet"> {bytes(each.bytes)}</span>
          </li>
        ))}
      </ul>
      {problem && <ProblemBanner problem={problem} />}
      <div className="actions">
        <button ref={keep} type="button" className="button" onClick={onClose}>
          Keep
        </button>
        <button
          type="button"
          className="button danger"
          onClick={() => void remove()}
          aria-disabled={busy || measured === null}
        >
          {busy ? "Deleting…" : `Delete ${what}`}
        </button>
      </div>
    </Modal>
  );
}
