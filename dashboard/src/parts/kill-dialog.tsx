// The dialog before one run is ended.

import { useRef, useState } from "react";
import { isBilled, runsHere } from "../../../src/providers/descriptors.ts";
import type { JobRecord, Problem } from "../../../src/schemas/job.ts";
import { api, asProblem } from "../api.ts";
import { usdPerHour, words } from "../format.ts";
import { isActive, titleOf } from "../status.ts";
import { store } from "../store.ts";
import { ProblemBanner } from "./banner.tsx";
import { Modal } from "./modal.tsx";

/** Says how a kill leaves the machine. */
function consequence(provider: string): string {
  if (runsHere(provider)) return "The script is stopped, and its checkpoints are kept. This computer stays as it is.";
  return isBilled(provider)
    ? "Checkpoints are collected first, for a limited time. Then the machine is terminated."
    : "Checkpoints are collected first, for a limited time. The notebook’s runtime keeps running and may cost money: shut it down yourself.";
}

/** Asks before a run is ended, naming the run and its machines. */
export function KillDialog({ job, onClose }: { job: JobRecord; onClose: () => void }) {
  const keep = useRef<HTMLButtonElement>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const over = !isActive(job);
  const held = job.machines.filter((machine) => machine.terminated_at === null);
  const kill = async () => {
    if (busy) return;
    setBusy(true);
    try {
      store.trigger.jobLoaded({ job: await api.kill(job.id) });
      onClose();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Modal titleId="kill-title" first={keep} after={`run-${job.id}`} onClose={onClose}>
      <h2 id="kill-title">{over ? "This run has ended" : "Kill this run?"}</h2>
      <p>
        <strong>
          <bdi>{titleOf(job)}</bdi>
        </strong>{" "}
        <code>{job.id}</code>
      </p>
      {over ? (
        <p>It ended while this dialog was open: {words(job.status)}.</p>
      ) : held.length > 0 ? (
        <ul className="plain">
          {held.map((machine) => (
            <li key={machine.name}>
              Machine <code>{machine.name}</code> at {job.provider}, {usdPerHour(machine.price_per_hour_usd)}
            </li>
          ))}
        </ul>
      ) : (
        <p>It has no machine yet ({job.provider}).</p>
      )}
      {!over && <p className="quiet">{consequence(job.provider)} This cannot be undone.</p>}
      {problem && <ProblemBanner problem={problem} />}
      <div className="actions">
        <button ref={keep} type="button" className="button" onClick={onClose}>
          {over ? "Close" : "Keep running"}
        </button>
        {!over && (
          <button type="button" className="button danger" onClick={() => void kill()} aria-disabled={busy}>
            {busy ? "Killing…" : "Kill run"}
          </button>
        )}
      </div>
    </Modal>
  );
}
