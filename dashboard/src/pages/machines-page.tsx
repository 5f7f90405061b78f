// The Machines page: machines that may cost money, machines that cost nothing, and the button that reconciles.

import { useState } from "react";
import type { LedgerMachine, Problem, ReconcileReport } from "../../../src/schemas/job.ts";
import { api, asProblem } from "../api.ts";
import { plural, timeOfDay, usdPerHour } from "../format.ts";
import { amountOf, isFree, perHourOf } from "../machines.ts";
import { Banner, ProblemBanner } from "../parts/banner.tsx";
import { MachineTable } from "../parts/machine-table.tsx";
import { useReturning } from "../parts/returning.ts";
import { useTitle } from "../parts/title.ts";
import { Link, runPath } from "../router.tsx";
import { useData } from "../store.ts";

export function MachinesPage() {
  useTitle("Machines");
  const machines = useData((data) => data.machines);
  const at = useData((data) => data.machinesAt);
  const priced = (machines ?? []).filter((machine) => !isFree(machine));
  const { isAlarming } = useReturning();
  const doubt = priced.filter(isAlarming);
  const free = (machines ?? []).filter(isFree);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Machines</h1>
        {at !== null && <p className="quiet small-text">as of {timeOfDay(at)}</p>}
      </div>
      {machines === null && <p className="quiet pad">Reading the ledger…</p>}
      {machines !== null && <MoneyFacts priced={priced} />}
      {doubt.length > 0 && (
        <Banner tone="warn" title={`${plural(doubt.length, "machine")} may still cost money`}>
          <p>
            {doubt.length === 1
              ? "Its termination is not confirmed, or no run uses it."
              : "Their termination is not confirmed, or no run uses them."}{" "}
            svc asks the providers again by itself until it knows; reconcile does it now.
          </p>
        </Banner>
      )}
      {priced.length > 0 && (
        <section className="panel">
          <h2>Machines that may cost money</h2>
          <MachineTable
            machines={[...doubt, ...priced.filter((machine) => !doubt.includes(machine))]}
            name="Machines that may cost money"
            full
          />
        </section>
      )}
      {free.length > 0 && (
        <section className="panel">
          <h2>Machines that cost nothing</h2>
          <MachineTable machines={free} name="Machines that cost nothing" full />
        </section>
      )}
      <Reconcile />
    </div>
  );
}

function MoneyFacts({ priced }: { priced: readonly LedgerMachine[] }) {
  if (priced.length === 0)
    return (
      <Banner tone="info" title="No machine costs money">
        <p>
          The ledger holds no machine that costs money. svc records a machine before it rents it, and removes it only
          when the provider confirms that it is gone.
        </p>
      </Banner>
    );
  const prices = priced.map((machine) => machine.price_per_hour_usd);
  const known = prices.some((price) => price !== null);
  return (
    <dl className="facts panel">
      <Fact name="Machines">{priced.length}</Fact>
      <Fact name="Price now">{known ? perHourOf(prices) : "unknown"}</Fact>
      {known && <Fact name="Per day">{amountOf(prices.map((price) => price && price * 24))}</Fact>}
      <Fact name="Cost so far">{amountOf(priced.map(({ cost_usd }) => cost_usd))}</Fact>
    </dl>
  );
}

const Fact = ({ name, children }: { name: string; children: React.ReactNode }) => (
  <div className="fact">
    <dt>{name}</dt>
    <dd className="num">{children}</dd>
  </div>
);

function Reconcile() {
  const [busy, setBusy] = useState<"dry" | "real" | null>(null);
  const [report, setReport] = useState<{ report: ReconcileReport; at: number } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const run = async (dry: boolean) => {
    if (busy !== null) return;
    setBusy(dry ? "dry" : "real");
    setProblem(null);
    try {
      setReport({ report: await api.reconcile(dry), at: Date.now() });
    } catch (error) {
      setProblem(asProblem(error));
    }
    setBusy(null);
  };
  return (
    <section className="panel" aria-labelledby="reconcile">
      <h2 id="reconcile">Reconcile</h2>
      <p className="quiet prose">
        Compares the ledger with the machines that the providers list: interrupted runs resume, and machines with this
        installation’s name prefix that belong to no run are terminated. Other machines are never touched.
      </p>
      <p className="actions gap-above">
        <button type="button" className="button" aria-disabled={busy !== null} onClick={() => void run(true)}>
          {busy === "dry" ? "Checking…" : "Check only (dry run)"}
        </button>
        <button type="button" className="button danger" aria-disabled={busy !== null} onClick={() => void run(false)}>
          {busy === "real" ? "Reconciling…" : "Reconcile now"}
        </button>
      </p>
      <div aria-live="polite">
        {problem && <ProblemBanner problem={problem} />}
        {report && <Report report={report.report} at={report.at} />}
      </div>
    </section>
  );
}

function Report({ report, at }: { report: ReconcileReport; at: number }) {
  const torn = report.replayed.filter((each) => !each.ok);
  const were = (n: number): string => (report.dry_run ? "would be" : n === 1 ? "was" : "were");
  const quiet =
    report.terminated.length + report.failed.length + report.unreachable_providers.length + torn.length === 0;
  return (
    <div className="report">
      <h3>
        {report.dry_run ? "Planned changes" : "Changes"} <span className="quiet small-text">at {timeOfDay(at)}</span>
      </h3>
      {quiet && <p className="good">The ledger matches the providers.</p>}
      <ul>
        <li>
          {plural(report.replayed.length, "journal")} checked
          {torn.length === 0 ? ", each matches its run." : ":"}
          {torn.map((each) => (
            <span key={each.job_id} className="bad">
              {" "}
              <Link href={runPath(each.job_id)}>{each.job_id}</Link> differs from event{" "}
              {each.first_difference_seq ?? "?"};
            </span>
          ))}
        </li>
        <li>
          {plural(report.resumed.length, "run")} under way
          <Runs ids={report.resumed} />
        </li>
        {report.ending.length > 0 && (
          <li>
            {plural(report.ending.length, "machine")} being released by {report.ending.length === 1 ? "its" : "their"}{" "}
            run, and may still cost money
            <ul>
              {report.ending.map((machine) => (
                <li key={machine.name}>
                  <code>{machine.name}</code> at {machine.provider} of{" "}
                  <Link href={runPath(machine.job_id)}>{machine.job_id}</Link>
                  {machine.price_per_hour_usd !== 0 && `, ${usdPerHour(machine.price_per_hour_usd)}`}
                </li>
              ))}
            </ul>
          </li>
        )}
        <li>
          {plural(report.terminated.length, "machine")} {were(report.terminated.length)} terminated
          <ul>
            {report.terminated.map((machine) => (
              <li key={machine.name}>
                <code>{machine.name}</code> at {machine.provider}
                {machine.job_id && (
                  <>
                    {" "}
                    of <Link href={runPath(machine.job_id)}>{machine.job_id}</Link>
                  </>
                )}
              </li>
            ))}
          </ul>
        </li>
        {report.failed.map((each) => (
          <li key={each.name} className="bad">
            <code>{each.name}</code> at {each.provider}: {each.error.message} {each.error.hint}
          </li>
        ))}
        {report.unreachable_providers.length > 0 && (
          <li className="bad">
            No complete answer from {report.unreachable_providers.join(", ")}. Machines there may still cost money; svc
            asks again and keeps every record.
          </li>
        )}
        <li>
          {plural(report.foreign.length, "machine")} on the accounts without this installation’s mark: of another
          installation, or made by hand. svc never touches them.
          <ul>
            {report.foreign.map((machine) => (
              <li key={`${machine.provider}/${machine.id}`}>
                <bdi>{machine.name ?? "without a name"}</bdi> <code>{machine.id}</code>{" "}
                <span className="quiet">{machine.provider}</span>
              </li>
            ))}
          </ul>
        </li>
      </ul>
    </div>
  );
}

const Runs = ({ ids }: { ids: readonly string[] }) =>
  ids.length === 0 ? null : (
    <>
      :{" "}
      {ids.map((id, i) => (
        <span key={id}>
          {i > 0 && ", "}
          <Link href={runPath(id)}>{id}</Link>
        </span>
      ))}
    </>
  );
