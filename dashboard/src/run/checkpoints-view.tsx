// The Checkpoints tab of a run: downloaded files, grouped by complete checkpoint, and where a new run can resume.

import { useMemo, useState } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import type { CheckpointFile, JobRecord } from "../../../src/schemas/job.ts";
import type { SinkStatus } from "../../../src/schemas/sink-status.ts";
import { api, asProblem } from "../api.ts";
import { number, plural, words } from "../format.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import { MoreButton } from "../parts/more-button.tsx";
import { At } from "../parts/time.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { isActive } from "../status.ts";
import { useData } from "../store.ts";
import { ResumePoints } from "./resume-points.tsx";
import { runApi } from "./run-api.ts";
import { stepInName } from "../../../src/domain/step-in-name.ts";

const FILES_AT_ONCE = 200;

export function CheckpointsView({ job }: { job: JobRecord }) {
  const files = useData((data) => data.checkpoints[job.id]);
  const [limit, setLimit] = useState(FILES_AT_ONCE);
  const newest = useMemo(
    () => [...(files ?? [])].sort((a, b) => b.modified_at.localeCompare(a.modified_at) || a.path.localeCompare(b.path)),
    [files],
  );
  const hasSteps = newest.some((file) => stepInName(file.path) !== null);
  if (!files) return <p className="quiet pad">Reading the checkpoints…</p>;
  if (files.length === 0) {
    return (
      <>
        <p className="quiet pad">
          {isActive(job) ? "None yet. " : "The run wrote no checkpoint. "}
          What a script writes to <code>svc.checkpoint_dir()</code> is listed here.
        </p>
        <Sinks job={job} />
      </>
    );
  }
  return (
    <div className="stack">
      <ResumePoints job={job} newest={newest[0]?.modified_at ?? ""} />
      <section className="panel" aria-label="Checkpoints">
        <div className="panel-head">
          <p className="quiet">
            {plural(files.length, "file")}, {bytes(files.reduce((sum, file) => sum + file.size, 0))}. Open a checkpoint
            only when you trust the run that wrote it.
          </p>
          <a className="button small" href={runApi.checkpointsTar(job.id)} download={`${job.id}-checkpoints.tar`}>
            Download all, .tar
          </a>
        </div>
        <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of checkpoint files">
          <table className="files">
            <thead>
              <tr>
                <th scope="col">File</th>
                {hasSteps && (
                  <th scope="col" className="right" title="Read from the file’s name: step-1200, epoch_3, weights-040.">
                    Step
                  </th>
                )}
                <th scope="col" className="right">
                  Size
                </th>
                <th scope="col" className="right">
                  Written
                </th>
                <th scope="col" className="right">
                  SHA-256
                </th>
              </tr>
            </thead>
            <tbody>
              {newest.slice(0, limit).map((file) => (
                <FileRow key={`${file.path}/${file.modified_at}`} id={job.id} file={file} hasSteps={hasSteps} />
              ))}
            </tbody>
          </table>
        </div>
        <MoreButton all={newest.length} shown={limit} atOnce={FILES_AT_ONCE} onMore={setLimit} />
      </section>
      <Sinks job={job} />
    </div>
  );
}

function FileRow({ id, file, hasSteps }: { id: string; file: CheckpointFile; hasSteps: boolean }) {
  const step = stepInName(file.path);
  return (
    <tr>
      <td>
        <a href={api.checkpointUrl(id, file.path)} download={file.path.split("/").at(-1)}>
          <bdi>{inOrder(file.path)}</bdi>
        </a>
      </td>
      {hasSteps && <td className="right num">{step === null ? "" : number(step)}</td>}
      <td className="right num">{bytes(file.size)}</td>
      <td className="right num">
        <At at={file.modified_at} />
      </td>
      <td className="right">
        <Digest id={id} path={file.path} />
      </td>
    </tr>
  );
}

/** Computed on demand, because it reads the whole file. */
function Digest({ id, path }: { id: string; path: string }) {
  const [state, setState] = useState<{ sha256: string } | { problem: string } | "busy" | null>(null);
  if (state === null || state === "busy") {
    const compute = () => {
      setState("busy");
      runApi.digest(id, path).then(setState, (error: unknown) => setState({ problem: asProblem(error).detail }));
    };
    return (
      <button
        type="button"
        className="button small"
        disabled={state === "busy"}
        onClick={compute}
        aria-label={`Compute the SHA-256 of ${path}`}
      >
        {state === "busy" ? "Computing…" : "Compute"}
      </button>
    );
  }
  if ("problem" in state) return <span className="bad">{state.problem}</span>;
  return (
    <code className="digest" title={state.sha256}>
      {state.sha256}
    </code>
  );
}

/** The progress of the copies in sinks. */
function Sinks({ job }: { job: JobRecord }) {
  const hasSinks = Array.isArray(job.spec["sinks"]) && job.spec["sinks"].length > 0;
  return hasSinks ? <SinkTable key={job.status} job={job} /> : null;
}

function SinkTable({ job }: { job: JobRecord }) {
  const files = useData((data) => data.checkpoints[job.id]?.length ?? 0);
  return <SinkRows key={files} job={job} />;
}

function SinkRows({ job }: { job: JobRecord }) {
  const { data } = useAnswer(() => runApi.sinks(job.id));
  if (!data || data.sinks.length === 0) return null;
  return (
    <section className="panel" aria-labelledby="sinks-title">
      <h2 id="sinks-title">Copies</h2>
      <ul className="plain sinks">
        {data.sinks.map((sink) => (
          <SinkLine key={sink.sink} sink={sink} />
        ))}
      </ul>
    </section>
  );
}

function SinkLine({ sink }: { sink: SinkStatus }) {
  return (
    <li>
      <p>
        <code>
          <bdi>{sink.url}</bdi>
        </code>{" "}
        <strong className={sink.state === "gave_up" ? "bad" : ""}>{words(sink.state)}</strong>{" "}
        <span className="quiet">
          {sink.what.join(" and ")}: {plural(sink.sent.files, "file")} ({bytes(sink.sent.bytes)}) copied
          {sink.waiting.files > 0 && `, ${number(sink.waiting.files)} (${bytes(sink.waiting.bytes)}) remaining`}
          {sink.last_copied_at && (
            <>
              , last <At at={sink.last_copied_at} />
            </>
          )}
        </span>
      </p>
      {sink.uploads.map((upload) => (
        <p key={upload.path} className="quiet small-text">
          <bdi>{inOrder(upload.path)}</bdi> {bytes(upload.sent)} of {bytes(upload.size)}{" "}
          <progress value={upload.sent} max={Math.max(1, upload.size)} aria-label={`${upload.path} copied`} />
        </p>
      ))}
      {sink.error && (
        <p className="bad">
          <bdi>{sink.error.message}</bdi> <span className="quiet">{sink.error.hint}</span>
        </p>
      )}
      {sink.left_out.map((each) => (
        <p key={each.path} className="quiet small-text">
          Left out: <bdi>{inOrder(each.path)}</bdi>, <bdi>{each.why}</bdi>
        </p>
      ))}
    </li>
  );
}
