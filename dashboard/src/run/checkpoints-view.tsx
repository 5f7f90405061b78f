// The Checkpoints tab of a run: downloaded files, grouped by complete checkpoint, and where a new run can resume.

import { useEffect, useMemo, useRef, useState } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import { freedWords } from "../../../src/domain/freed-words.ts";
import { newestFirst, savedWhen } from "../../../src/domain/newest-first.ts";
import type { CheckpointFile, JobRecord, ResumePoint } from "../../../src/schemas/job.ts";
import type { SinkStatus } from "../../../src/schemas/sink-status.ts";
import { api } from "../api.ts";
import { number, plural, words } from "../format.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import { runsHere } from "../../../src/providers/descriptors.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { MoreButton } from "../parts/more-button.tsx";
import { At } from "../parts/time.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { isActive } from "../status.ts";
import { useData } from "../store.ts";
import { AllDigests, Digest, useDigests, type Digests } from "./checkpoint-digests.tsx";
import { PickedBar, RemovalDialog, type Removable } from "./checkpoint-removal.tsx";
import { Pick, ResumePoints, useJudged, type Judged, type Picks } from "./resume-points.tsx";
import { runApi } from "./run-api.ts";
import { stepInName } from "../../../src/domain/step-in-name.ts";

const FILES_AT_ONCE = 200;

const NO_POINTS: ResumePoint[] = [];

export function CheckpointsView({ job }: { job: JobRecord }) {
  const files = useData((data) => data.checkpoints[job.id]);
  const [done, setDone] = useState("");
  return (
    <>
      <p className={done === "" ? "hidden" : "quiet pad"} role="status">
        {done}
      </p>
      {!files ? (
        <p className="quiet pad">Reading the checkpoints…</p>
      ) : files.length === 0 ? (
        <>
          <p className="quiet pad">
            {isActive(job) ? "None yet. " : "No checkpoint of this run is on this computer. "}
            What a script writes to <code>svc.checkpoint_dir()</code> is listed here.
            {!runsHere(job.provider) && " svc downloads no other file from its machine."}
          </p>
          <Sinks job={job} />
        </>
      ) : (
        <KnownCheckpoints job={job} files={files} onDone={setDone} />
      )}
    </>
  );
}

/** The complete checkpoints of a run; they are read again when its files change. */
function usePoints(jobId: string, files: readonly CheckpointFile[]) {
  const answer = useAnswer(() => runApi.resumePoints(jobId));
  const { reload } = answer;
  // The time of the newest one would hide a save by a machine whose clock is behind that of an earlier one.
  const version = `${files.length} ${files.reduce((sum, { modified_at: at }) => sum + Date.parse(at), 0)}`;
  const known = useRef(version);
  useEffect(() => {
    if (known.current !== version) reload();
    known.current = version;
  }, [version, reload]);
  return answer;
}

function KnownCheckpoints(props: {
  job: JobRecord;
  files: readonly CheckpointFile[];
  onDone: (words: string) => void;
}) {
  const { job, files } = props;
  const { data, problem } = usePoints(job.id, files);
  const points = data?.checkpoints ?? NO_POINTS;
  const judged = useJudged(job, points);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [asking, setAsking] = useState(false);
  const { nodes } = job;
  const loose = useMemo(() => (data === null ? [] : looseFiles(nodes, points, files)), [nodes, data, points, files]);
  const removable = [...points.map(({ name, bytes: size }) => ({ name, bytes: size })), ...loose];
  const picked = removable.filter(({ name }) => chosen.has(name));
  const picks: Picks | null =
    isActive(job) || data === null
      ? null
      : {
          has: (name) => chosen.has(name),
          toggle: (name) => {
            const next = new Set(chosen);
            if (!next.delete(name)) next.add(name);
            setChosen(next);
          },
          set: (names) => setChosen(new Set(names)),
        };
  return (
    <div className="stack">
      {problem ? (
        <ProblemBanner problem={problem} />
      ) : data === null ? (
        <p className="quiet pad">Looking for complete checkpoints…</p>
      ) : (
        <ResumePoints job={job} points={points} judged={judged} picks={picks} />
      )}
      <Files job={job} files={files} picks={picks} loose={loose} />
      <Sinks job={job} />
      {picks !== null && picked.length > 0 && (
        <PickedBar picked={picked} onClear={() => setChosen(new Set())} onDelete={() => setAsking(true)} />
      )}
      {asking && (
        <RemovalDialog
          jobId={job.id}
          picked={picked}
          caution={cautionFor(picked, points, judged)}
          onClose={() => setAsking(false)}
          onDone={(removed) => {
            setAsking(false);
            setChosen(new Set());
            props.onDone(`${plural(removed.checkpoints.length, "checkpoint")} deleted. ${freedWords(removed)}`);
          }}
        />
      )}
    </div>
  );
}

/** The files that belong to no complete checkpoint. On several nodes each node has a part of a checkpoint. */
function looseFiles(nodes: number, points: readonly ResumePoint[], files: readonly CheckpointFile[]): Removable[] {
  const names = new Set(points.map(({ name }) => name));
  const isPart = (path: string): boolean => {
    const parts = (nodes > 1 ? path.replace(/^node[0-9]+\//, "") : path).split("/");
    return parts.some((_, i) => names.has(parts.slice(0, i + 1).join("/")));
  };
  return files.filter(({ path }) => !isPart(path)).map(({ path, size }) => ({ name: path, bytes: size }));
}

function cautionFor(
  picked: readonly Removable[],
  points: readonly ResumePoint[],
  { metric, best }: Judged,
): string | null {
  const has = (name: string) => picked.some((each) => each.name === name);
  if (points.length > 0 && points.every(({ name }) => has(name)))
    return "No complete checkpoint is left then: no run can resume from this one.";
  return best !== null && has(best.name) ? `The best one by ${metric ?? ""} is among them.` : null;
}

function Files(props: {
  job: JobRecord;
  files: readonly CheckpointFile[];
  picks: Picks | null;
  /** Files that can be deleted by themselves. */
  loose: readonly Removable[];
}) {
  const { job, files } = props;
  const loose = useMemo(() => new Set(props.loose.map(({ name }) => name)), [props.loose]);
  const picks = loose.size > 0 ? props.picks : null;
  const [limit, setLimit] = useState(FILES_AT_ONCE);
  const newest = useMemo(
    () => [...files].sort((a, b) => newestFirst(savedWhen(a), savedWhen(b)) || a.path.localeCompare(b.path)),
    [files],
  );
  const digests = useDigests(job.id, newest);
  const hasSteps = newest.some((file) => stepInName(file.path) !== null);
  return (
    <section className="panel" aria-label="Checkpoints">
      <div className="panel-head wraps">
        <p className="quiet">
          {plural(files.length, "file")}, {bytes(files.reduce((sum, file) => sum + file.size, 0))}. Open a checkpoint
          only when you trust the run that wrote it.
        </p>
        <div className="actions">
          <AllDigests jobId={job.id} files={newest} digests={digests} />
          <a className="button small" href={runApi.checkpointsTar(job.id)} download={`${job.id}-checkpoints.tar`}>
            Download all, .tar
          </a>
        </div>
      </div>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of checkpoint files">
        <table className="files">
          <thead>
            <tr>
              {picks !== null && (
                <th scope="col">
                  <span className="hidden">Select</span>
                </th>
              )}
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
              <FileRow
                key={`${file.path}/${file.modified_at}`}
                id={job.id}
                file={file}
                hasSteps={hasSteps}
                picks={picks}
                isLoose={loose.has(file.path)}
                digests={digests}
              />
            ))}
          </tbody>
        </table>
      </div>
      <MoreButton all={newest.length} shown={limit} atOnce={FILES_AT_ONCE} onMore={setLimit} />
    </section>
  );
}

function FileRow(props: {
  id: string;
  file: CheckpointFile;
  hasSteps: boolean;
  picks: Picks | null;
  isLoose: boolean;
  digests: Digests;
}) {
  const { id, file, hasSteps, picks, isLoose, digests } = props;
  const step = stepInName(file.path);
  return (
    <tr>
      {picks !== null && <td className="file-pick">{isLoose && <Pick picks={picks} name={file.path} />}</td>}
      <td className="file-name">
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
        <Digest file={file} digests={digests} />
      </td>
    </tr>
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
