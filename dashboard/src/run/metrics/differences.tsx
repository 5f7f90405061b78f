// Lists what differs between compared runs, above their charts: outcome, duration, cost, code, and each field of their specs.

import { useMemo } from "react";
import type { JobRecord } from "../../../../src/schemas/job.ts";
import { DASH, duration, usd } from "../../format.ts";
import { Link, runPath } from "../../router.tsx";
import { titleOf } from "../../status.ts";

interface Row {
  name: string;
  values: readonly string[];
}

const ABSENT = "";

/** The differences between runs, one row each: outcome, cost, and fields of their specs. Equal fields are left out. */
export function differencesOf(jobs: readonly JobRecord[]): Row[] {
  const outcome: Row[] = [
    { name: "status", values: jobs.map(({ status }) => status) },
    { name: "duration", values: jobs.map(durationWords) },
    { name: "cost", values: jobs.map(({ cost_usd }) => usd(cost_usd)) },
    { name: "code", values: jobs.map(({ code_snapshot }) => code_snapshot?.slice(0, 12) ?? ABSENT) },
  ];
  const specs = jobs.map(({ spec }) => flat(spec));
  const names = [...new Set(specs.flatMap((spec) => [...spec.keys()]))];
  const fields = names.map((name) => ({ name, values: specs.map((spec) => spec.get(name) ?? ABSENT) }));
  return [...outcome, ...fields].filter(({ values }) => new Set(values).size > 1);
}

/** The fields of a spec; of objects such as `env`, their members. */
function flat(spec: Record<string, unknown>): Map<string, string> {
  const found = new Map<string, string>();
  for (const [name, value] of Object.entries(spec)) {
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      for (const [member, inner] of Object.entries(value)) found.set(`${name}.${member}`, text(inner));
    else if (Array.isArray(value) && value.every((each) => typeof each === "string")) found.set(name, value.join(" "));
    else found.set(name, text(value));
  }
  return found;
}

const text = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

const durationWords = ({ started_at, ended_at }: JobRecord): string =>
  started_at && ended_at ? duration(Date.parse(ended_at) - Date.parse(started_at)) : DASH;

/** A table of what differs between the compared runs. */
export function Differences({ jobs }: { jobs: readonly JobRecord[] }) {
  const rows = useMemo(() => differencesOf(jobs), [jobs]);
  const [first, second, ...more] = jobs;
  if (jobs.length < 2) return null;
  return (
    <details className="panel values" open>
      <summary>What differs</summary>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Differences between the runs">
        <table className="small-table differences">
          <thead>
            <tr>
              <th scope="col">Field</th>
              {jobs.map((job) => (
                <th key={job.id} scope="col">
                  <Link href={runPath(job.id)}>
                    <bdi>{titleOf(job)}</bdi>
                  </Link>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ name, values }) => (
              <tr key={name}>
                <th scope="row">
                  <bdi>{name}</bdi>
                </th>
                {values.map((value, i) => (
                  <td key={jobs[i]?.id ?? i}>
                    {value === ABSENT ? <span className="quiet">not set</span> : <bdi>{value}</bdi>}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <p className="quiet pad">The runs have the same spec, code and outcome.</p>}
      {first && second && more.length === 0 && first.code_snapshot !== second.code_snapshot && (
        <p className="pad">
          <Link href={`${runPath(first.id, "code")}&diff=${encodeURIComponent(second.id)}`}>Compare their code</Link>
        </p>
      )}
    </details>
  );
}
