// A data set on the page Data: what it holds, the check of its files, and its removal.

import { useState } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import type { DataReport, DataSummary } from "../../../src/schemas/data.ts";
import type { Problem } from "../../../src/schemas/job.ts";
import { api, asProblem } from "../api.ts";
import { plural } from "../format.ts";
import { AskFirst } from "../parts/ask-first.tsx";
import { ProblemBanner } from "../parts/banner.tsx";
import { At } from "../parts/time.tsx";
import { useAnswer } from "../parts/use-answer.ts";

interface DataSetProps {
  data: DataSummary;
  open: boolean;
  onToggle: (open: boolean) => void;
  onChanged: () => void;
}

export function DataSet({ data, open, onToggle, onChanged }: DataSetProps) {
  const [report, setReport] = useState<DataReport | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const work = async (act: () => Promise<void>) => {
    if (busy) return;
    setBusy(true);
    setProblem(null);
    await act().catch((error: unknown) => setProblem(asProblem(error)));
    setBusy(false);
  };
  const verify = (full: boolean) =>
    work(async () => {
      setReport(await api.verifyData(data.name, full));
      onChanged();
    });
  const remove = () =>
    work(async () => {
      await api.removeData(data.name);
      onChanged();
    });
  return (
    <details className="panel connect" open={open} onToggle={(event) => onToggle(event.currentTarget.open)}>
      <summary>
        <span className="connect-name">
          <strong>
            <bdi>{data.name}</bdi>
          </strong>{" "}
          <span className="quiet num">
            {plural(data.files, "file")}, {bytes(data.bytes)}
          </span>
        </span>
        <span className="quiet small-text">
          last checked <At at={data.checked_at} />
        </span>
      </summary>
      <dl className="spec">
        <div>
          <dt>Folders</dt>
          <dd>
            {data.roots.map((root) => (
              <code key={root} className="block">
                {root}
              </code>
            ))}
          </dd>
        </div>
        <div>
          <dt>SHA-256 of all files</dt>
          <dd>
            <code>{data.sha256}</code>
          </dd>
        </div>
        {data.left_out_count > 0 && (
          <div>
            <dt>Left out</dt>
            <dd className="doubt">
              {plural(data.left_out_count, "entry")}: {data.left_out[0]?.path} {data.left_out[0]?.why}
            </dd>
          </div>
        )}
      </dl>
      {open && <Files name={data.name} />}
      <div className="actions gap-above">
        <button type="button" className="button" aria-disabled={busy} onClick={() => void verify(false)}>
          {busy ? "Working…" : "Verify"}
        </button>
        <button type="button" className="button" aria-disabled={busy} onClick={() => void verify(true)}>
          Verify every byte
        </button>
        <AskFirst ask="Remove…" yes="Remove from the list; files stay" busy={busy} onYes={() => void remove()} />
      </div>
      <div aria-live="polite">
        {problem && <ProblemBanner problem={problem} />}
        {report && <Verified report={report} />}
      </div>
    </details>
  );
}

function Verified({ report }: { report: DataReport }) {
  if (report.ok)
    return (
      <p className="good gap-above">
        All {plural(report.files, "file")} are as they were ({bytes(report.read_bytes)} read).
      </p>
    );
  const found = [
    ...report.missing.map((path) => `missing: ${path}`),
    ...report.changed.map(({ path, why }) => `changed: ${path} (${why})`),
    ...report.unreadable.map(({ path, why }) => `unreadable: ${path} (${why})`),
    ...report.extra.map((path) => `new: ${path}`),
  ];
  return (
    <div className="gap-above">
      <p className="bad">
        {plural(found.length, "difference")} from what was added. Add it again to take the data as it is now.
      </p>
      <ul className="plain kill-list" tabIndex={0} aria-label="Differences">
        {found.slice(0, 200).map((line) => (
          <li key={line}>
            <bdi>{line}</bdi>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Files({ name }: { name: string }) {
  const { data, problem } = useAnswer(() => api.dataFiles(name));
  if (problem) return <ProblemBanner problem={problem} />;
  if (data === null) return <p className="quiet">Reading the files…</p>;
  return (
    <div className="scroll-x file-list" tabIndex={0} role="region" aria-label={`Files of ${name}`}>
      <table className="files">
        <thead>
          <tr>
            <th scope="col">File</th>
            <th scope="col">SHA-256</th>
            <th scope="col" className="right">
              Size
            </th>
          </tr>
        </thead>
        <tbody>
          {data.files.map((file) => (
            <tr key={file.path}>
              <td>
                <bdi>{file.path}</bdi>
              </td>
              <td>
                <code title={file.sha256}>{file.sha256.slice(0, 12)}</code>
              </td>
              <td className="right num">{bytes(file.size)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {data.next_cursor !== null && (
        <p className="quiet small-text">
          Showing the first {data.files.length} files; <code>svc data show</code> lists all.
        </p>
      )}
    </div>
  );
}
