// The receipt of a run: each machine with its time, its price, its cost, and the proof of its end.

import { useCallback, useEffect } from "react";
import { receiptCsv } from "../../../src/domain/cost-csv.ts";
import { WASTE_KINDS, WASTE_WORDS } from "../../../src/schemas/cost-names.ts";
import { ACTIVE_STATUSES } from "../../../src/schemas/names.ts";
import type { Receipt, ReceiptMachine } from "../../../src/schemas/costs.ts";
import { api } from "../api.ts";
import { duration, moment, usd, usdPerHour } from "../format.ts";
import { Banner, ProblemBanner } from "../parts/banner.tsx";
import { useTitle } from "../parts/title.ts";
import { useAnswer } from "../parts/use-answer.ts";
import { Link, runPath } from "../router.tsx";
import { Amount, wastedOf } from "./amount.tsx";
import { ExportButtons } from "./export-buttons.tsx";

/** While it is being ended, the machine counts as one that nothing needs. */
const ACTIVE: ReadonlySet<string> = new Set(ACTIVE_STATUSES.filter((status) => status !== "terminating"));
const HOUR_MS = 3_600_000;
/** The amounts grow until every end is proven. */
const READ_EVERY_MS = 10_000;

export function ReceiptView({ id }: { id: string }) {
  useTitle(`Receipt of ${id}`);
  const read = useCallback(() => api.receipt(id), [id]);
  const { data, problem, reload } = useAnswer(read);
  const isOpen = data !== null && !data.is_final;
  useEffect(() => {
    if (!isOpen) return;
    const timer = setInterval(() => document.hidden || reload(), READ_EVERY_MS);
    return () => clearInterval(timer);
  }, [isOpen, reload]);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Receipt</h1>
        {data !== null && <ExportButtons name={`receipt-${id}`} json={data} csv={() => receiptCsv(data)} />}
      </div>
      <p className="quiet">
        Run <Link href={runPath(id)}>{data?.label ?? id}</Link>
      </p>
      {problem && <ProblemBanner problem={problem} />}
      {data === null && !problem && <p className="quiet pad">Reading the ledger…</p>}
      {data !== null && <Machines receipt={data} />}
    </div>
  );
}

function Machines({ receipt }: { receipt: Receipt }) {
  const { machines, total, is_final, status } = receipt;
  const isUsed = ACTIVE.has(status);
  const kinds = WASTE_KINDS.filter((kind) => total.waste[kind] > 0);
  return (
    <>
      {!is_final && isUsed && (
        <Banner tone="info" title="The run has not ended: its amounts still grow">
          <p>The receipt is final once the provider has confirmed that every machine is gone.</p>
        </Banner>
      )}
      {!is_final && !isUsed && (
        <Banner tone="warn" title="A machine of this run may still cost money">
          <p>The receipt is final once the provider has confirmed that every machine is gone.</p>
        </Banner>
      )}
      {machines.length === 0 && <p className="quiet pad">This run has rented no machine. It cost nothing.</p>}
      <ul className="plain receipt-list">
        {machines.map((machine) => (
          <li key={machine.name} className="panel">
            <OneMachine machine={machine} isUsed={isUsed} />
          </li>
        ))}
      </ul>
      {machines.length > 0 && (
        <p className="receipt-total">
          Total{" "}
          <strong className="num">
            <Amount of={total} />
          </strong>
          {kinds.length > 0 && (
            <span className="quiet">
              , of which {usd(wastedOf(total))} waste:{" "}
              {kinds.map((kind) => `${WASTE_WORDS[kind]} ${usd(total.waste[kind])}`).join(", ")}
            </span>
          )}
        </p>
      )}
    </>
  );
}

function OneMachine({ machine, isUsed }: { machine: ReceiptMachine; isUsed: boolean }) {
  return (
    <>
      <h2>
        <code>{machine.name}</code>
      </h2>
      <dl className="receipt-facts">
        <dt>Machine</dt>
        <dd>
          {machine.provider} {machine.gpus}
          {machine.id !== null && <span className="quiet"> ({machine.id})</span>}
        </dd>
        <dt>Time</dt>
        <dd>
          {moment(machine.from)} to {machine.to === null ? "now" : moment(machine.to)},{" "}
          {duration(machine.hours * HOUR_MS)}
        </dd>
        <dt>Price</dt>
        <dd>
          {machine.price_per_hour_usd === null ? "unknown" : usdPerHour(machine.price_per_hour_usd)}
          {machine.price_changed && <span className="quiet"> at last; it had another price before</span>}
        </dd>
        <dt>Cost</dt>
        <dd>
          <Amount of={machine} />
          {machine.cost_estimate_usd !== null && (
            <span className="quiet"> (estimate {usd(machine.cost_estimate_usd)})</span>
          )}
        </dd>
        <dt>End</dt>
        <dd>
          {machine.unproven_usd !== null && machine.to !== null && (
            <>It may have cost up to {usd(machine.unproven_usd)}, which is not proven: </>
          )}
          {machine.proof ?? (isUsed ? "none yet: the run uses it" : "not proven: it may still cost money")}
        </dd>
      </dl>
    </>
  );
}
