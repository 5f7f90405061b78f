// The dialog before several runs are ended at once.

import { useRef } from "react";
import { isBilled, runsHere } from "../../../src/providers/descriptors.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { api } from "../api.ts";
import { plural, usdPerHour } from "../format.ts";
import { perHourOf } from "../machines.ts";
import { titleOf } from "../status.ts";
import { store } from "../store.ts";
import { ProblemBanner } from "./banner.tsx";
import { Modal } from "./modal.tsx";
import { useEach } from "./use-each.ts";

const AT_ONCE = 6;
const SHOWN = 50;

/** Asks before several runs are ended, and names each with its machines and the cost that ends. */
export function KillManyDialog({ jobs, onClose }: { jobs: readonly JobRecord[]; onClose: () => void }) {
  const keep = useRef<HTMLButtonElement>(null);
  const kill = async (job: JobRecord) => store.trigger.jobLoaded({ job: await api.kill(job.id) });
  const { asked, done, failed, begin } = useEach(jobs, { atOnce: AT_ONCE, act: kill, onDone: onClose });
  const rented = asked.filter((job) => isBilled(job.provider));
  const inNotebooks = asked.some((job) => !isBilled(job.provider) && !runsHere(job.provider));
  const held = rented.flatMap((job) => job.machines.filter((machine) => machine.terminated_at === null));
  return (
    <Modal titleId="kill-many-title" wide first={keep} onClose={onClose}>
      <h2 id="kill-many-title">Kill {plural(asked.length, "run")}?</h2>
      <p>
        {held.length > 0 ? (
          <>
            {plural(held.length, "machine")} will be terminated and stop costing money:{" "}
            <strong>{perHourOf(held.map((machine) => machine.price_per_hour_usd))}</strong>.
          </>
        ) : rented.length === 0 ? (
          inNotebooks ? (
            "svc has rented no machine for them."
          ) : (
            "They run on this computer, at no cost."
          )
        ) : (
          "None of them has a rented machine yet."
        )}
      </p>
      <ul className="plain kill-list" tabIndex={0} aria-label="Runs and machines">
        {asked.slice(0, SHOWN).map((job) => (
          <li key={job.id}>
            <bdi>{titleOf(job)}</bdi> <code>{job.id}</code>
            <span className="quiet">
              {" "}
              {job.provider}
              {job.machines
                .filter((machine) => machine.terminated_at === null)
                .map((machine) => ` · ${machine.name}, ${usdPerHour(machine.price_per_hour_usd)}`)
                .join("")}
            </span>
          </li>
        ))}
        {asked.length > SHOWN && <li className="quiet">and {asked.length - SHOWN} more</li>}
      </ul>
      <p className="quiet">
        {rented.length > 0
          ? "Checkpoints are collected first, for a limited time. Then the rented machines are terminated."
          : inNotebooks
            ? "Checkpoints are collected first, for a limited time."
            : "The scripts are stopped, and their checkpoints are kept. This computer stays as it is."}{" "}
        {inNotebooks && "The runtime of a notebook keeps running and may cost money: shut it down yourself. "}
        This cannot be undone.
      </p>
      {failed[0] && (
        <>
          <p className="bad">{plural(failed.length, "run")} could not be killed:</p>
          <ProblemBanner problem={failed[0].problem} />
        </>
      )}
      <div className="actions">
        <button ref={keep} type="button" className="button" onClick={onClose}>
          Keep running
        </button>
        <button type="button" className="button danger" onClick={() => void begin()} aria-disabled={done !== null}>
          {done === null ? `Kill ${plural(asked.length, "run")}` : `Killing ${done} of ${asked.length}…`}
        </button>
      </div>
    </Modal>
  );
}
