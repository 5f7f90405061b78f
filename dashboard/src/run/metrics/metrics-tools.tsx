// The toolbar of the Metrics tab.

import { useEffect, useState } from "react";
import type { JobRecord } from "../../../../src/schemas/job.ts";
import { api } from "../../api.ts";
import { save } from "../../parts/save.ts";
import { Link, runPath } from "../../router.tsx";
import { COMPARED_MAX } from "../../runs/compare-path.ts";
import { titleOf } from "../../status.ts";
import { setParams } from "../place.ts";
import { csvOf } from "./curves.ts";
import type { ShownRun } from "./lines.ts";
import type { ChartSettings } from "./metric-chart.tsx";
import type { MetricsSet } from "./reader.ts";

/** The settings of the charts: all of them are in the address. */
export function MetricsTools(props: {
  job: JobRecord;
  names: readonly string[];
  settings: ChartSettings;
  runs: readonly ShownRun[];
  find: string;
  set: MetricsSet;
}) {
  const { job, names, settings, runs, find, set } = props;
  const all = () => {
    const tables = names.flatMap((name) => {
      const known = set.readers.flatMap((reader, i) => {
        const columns = reader.columns(name);
        return columns ? [{ label: runs[i]?.id ?? "", columns }] : [];
      });
      return known.length > 0 ? [csvOf(name, known)] : [];
    });
    save(new Blob([tables.join("\n")], { type: "text/csv" }), `${job.id}-metrics.csv`);
  };
  return (
    <div className="metrics-tools">
      <input
        type="search"
        className="metrics-find"
        aria-label="Find a metric"
        placeholder="Find a metric"
        value={find}
        onChange={(event) => setParams({ find: event.target.value || null })}
      />
      <label className="metrics-choice">
        <span className="quiet">x axis</span>
        <select
          value={settings.x}
          onChange={(event) => setParams({ x: event.target.value === "step" ? null : event.target.value, zoom: null })}
        >
          <option value="step">step</option>
          <option value="time">time</option>
          <optgroup label="another metric">
            {names.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </optgroup>
        </select>
      </label>
      <Smoothing value={settings.smooth} />
      <Toggle on={settings.logX} name="logx">
        Log x
      </Toggle>
      <Toggle on={settings.logY} name="logy">
        Log y
      </Toggle>
      <label className="metrics-choice">
        <span className="quiet">Ranks</span>
        <select value={settings.ranks ?? ""} onChange={(event) => setParams({ ranks: event.target.value || null })}>
          <option value="">by their number</option>
          <option value="each">a line each</option>
          <option value="band">mean and range</option>
        </select>
      </label>
      {settings.range && (
        <button type="button" className="button small" onClick={() => setParams({ zoom: null })}>
          Reset zoom
        </button>
      )}
      <span className="metrics-end">
        <Compare job={job} runs={runs} />
        <button type="button" className="button small" onClick={all} title="Every point of the charts seen so far">
          CSV
        </button>
      </span>
      {runs.length > 1 && <Compared runs={runs} />}
    </div>
  );
}

function Smoothing({ value }: { value: number }) {
  return (
    <label className="metrics-choice">
      <span className="quiet">Smoothing</span>
      <input
        type="range"
        min={0}
        max={0.99}
        step={0.01}
        value={value}
        onChange={(event) => setParams({ smooth: event.target.value === "0" ? null : event.target.value })}
      />
      <span className="num metrics-smooth">{value.toFixed(2)}</span>
    </label>
  );
}

function Toggle({ on, name, children }: { on: boolean; name: string; children: string }) {
  return (
    <button
      type="button"
      className="button small toggle"
      aria-pressed={on}
      onClick={() => setParams({ [name]: on ? null : "1" })}
    >
      {children}
    </button>
  );
}

/** Adds a run to compare with: offers the newest, and the address accepts any id. */
function Compare({ job, runs }: { job: JobRecord; runs: readonly ShownRun[] }) {
  const [jobs, setJobs] = useState<JobRecord[] | null>(null);
  useEffect(() => {
    let gone = false;
    api.jobs({ limit: 100 }).then(
      (page) => !gone && setJobs(page.jobs),
      () => undefined,
    );
    return () => void (gone = true);
  }, []);
  const taken = new Set(runs.map((run) => run.id));
  const offered = (jobs ?? []).filter((each) => !taken.has(each.id));
  const add = (id: string) =>
    setParams({
      with: [...runs.filter((run) => run.id !== job.id).map((run) => run.id), id].join(","),
    });
  return (
    <select
      className="metrics-compare"
      aria-label="Compare with another run"
      value=""
      disabled={runs.length >= COMPARED_MAX}
      onChange={(event) => event.target.value && add(event.target.value)}
    >
      <option value="">Compare with…</option>
      {offered.map((each) => (
        <option key={each.id} value={each.id}>
          {titleOf(each)} · {each.id}
        </option>
      ))}
    </select>
  );
}

function Compared({ runs }: { runs: readonly ShownRun[] }) {
  const without = (id: string) =>
    runs
      .slice(1)
      .filter((run) => run.id !== id)
      .map((run) => run.id)
      .join(",") || null;
  return (
    <ul className="plain compared" aria-label="Compared runs">
      {runs.map((run, i) => (
        <li key={run.id}>
          <span className={`swatch swatch-${i % 8}`} aria-hidden="true" />{" "}
          <Link href={runPath(run.id, "metrics")}>
            <bdi>{run.label}</bdi>
          </Link>{" "}
          <code className="quiet">{run.id}</code>
          {i > 0 && (
            <button
              type="button"
              className="compared-out"
              aria-label={`Remove ${run.label}`}
              onClick={() => setParams({ with: without(run.id) })}
            >
              ×
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}
