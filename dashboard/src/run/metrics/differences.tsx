// Lists what differs between compared runs, above their charts: the best values of metrics, parameters, outcome, duration,
// cost, code, and each field of their specs.

import { useEffect, useMemo } from "react";
import { costText } from "../../../../src/domain/money.ts";
import { paramsOf } from "../../../../src/domain/run-params.ts";
import type { JobRecord } from "../../../../src/schemas/job.ts";
import { DASH, duration, metricValue } from "../../format.ts";
import { Link, runPath } from "../../router.tsx";
import { titleOf } from "../../status.ts";
import { summary } from "./columns.ts";
import { bestAt, betterOf, judges } from "./judge.ts";
import type { MetricsSet } from "./reader.ts";

interface Row {
  name: string;
  values: readonly string[];
  /** The column with the best value, if one is better than all others. */
  best?: number;
}

/** Metrics whose best values are compared. */
const JUDGES_MAX = 4;

const ABSENT = "";

/** The differences between runs, one row each: parameters, outcome, cost, and fields of their specs. Equal ones are left out. */
export function differencesOf(jobs: readonly JobRecord[]): Row[] {
  const outcome: Row[] = [
    { name: "status", values: jobs.map(({ status }) => status) },
    { name: "duration", values: jobs.map(durationWords) },
    { name: "cost", values: jobs.map(costText) },
    { name: "code", values: jobs.map(({ code_snapshot }) => code_snapshot?.slice(0, 12) ?? ABSENT) },
  ];
  const specs = jobs.map(({ spec }) => flat(spec));
  const names = [...new Set(specs.flatMap((spec) => [...spec.keys()]))];
  const fields = names.map((name) => ({ name, values: specs.map((spec) => spec.get(name) ?? ABSENT) }));
  const params = jobs.map(({ args }) => paramsOf(args));
  const given = [...new Set(params.flatMap((each) => Object.keys(each)))].map((name) => ({
    name,
    values: params.map((each) => each[name] ?? ABSENT),
  }));
  return [...given, ...outcome, ...fields].filter(({ values }) => new Set(values).size > 1);
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

/** The best value of each metric that judges runs, one row each. */
function useBestValues(set: MetricsSet, names: readonly string[], enabled: boolean): Row[] {
  const metrics = useMemo(() => (enabled ? judges(names).slice(0, JUDGES_MAX) : []), [names, enabled]);
  const { readers } = set;
  useEffect(() => {
    const leave = metrics.flatMap((name) => readers.map((reader) => reader.want(name)));
    return () => leave.forEach((each) => each());
  }, [metrics, readers]);
  const version = metrics
    .map((name) => readers.map((reader) => `${reader.version(name)} ${reader.isPending(name)}`).join())
    .join(" ");
  return useMemo(() => {
    if (version === "") return [];
    return metrics.map((name) => {
      const isMin = betterOf(name) === "min";
      const values = readers.map((reader) => {
        const columns = reader.columns(name);
        const sum = columns ? summary(columns) : null;
        return sum && (isMin ? sum.min : sum.max);
      });
      const pending = readers.map((reader) => reader.isPending(name));
      const best = bestAt(values, isMin ? "min" : "max");
      const isAlone = values.filter((value) => value === values[best]).length === 1;
      return {
        name: `${name}, ${isMin ? "lowest" : "highest"}`,
        values: values.map((value, i) => (value !== null ? metricValue(name, value) : pending[i] ? "…" : DASH)),
        // Not while a better value may still arrive.
        ...(isAlone && !pending.includes(true) ? { best } : {}),
      };
    });
  }, [metrics, readers, version]);
}

/** A table of what differs between the compared runs. */
export function Differences(props: { jobs: readonly JobRecord[]; set: MetricsSet; names: readonly string[] }) {
  const { jobs, set, names } = props;
  const differing = useMemo(() => differencesOf(jobs), [jobs]);
  // Until all runs are read, their columns and those of their metrics are not the same.
  const bestValues = useBestValues(set, names, jobs.length > 1 && jobs.length === set.readers.length);
  const rows: Row[] = [...bestValues, ...differing];
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
            {rows.map(({ name, values, best }) => (
              <tr key={name}>
                <th scope="row">
                  <bdi>{name}</bdi>
                </th>
                {values.map((value, i) => (
                  <td key={jobs[i]?.id ?? i}>
                    {value === ABSENT ? (
                      <span className="quiet">not set</span>
                    ) : i === best ? (
                      <strong className="good">
                        <bdi>{value}</bdi> best
                      </strong>
                    ) : (
                      <bdi>{value}</bdi>
                    )}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {differing.length === 0 && <p className="quiet pad">The runs have the same spec, code and outcome.</p>}
      {first && second && more.length === 0 && first.code_snapshot !== second.code_snapshot && (
        <p className="pad">
          <Link href={`${runPath(first.id, "code")}&diff=${encodeURIComponent(second.id)}`}>Compare their code</Link>
        </p>
      )}
    </details>
  );
}
