// The Code tab of a run: the files of its snapshot, one of them with colours, and the diff to another run's code.

import { LeftOutList } from "../parts/left-out-list.tsx";
import { useMemo } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import type { CodeChange, CodeDiff } from "../../../src/schemas/code.ts";
import type { CodeSnapshot, JobRecord, Problem } from "../../../src/schemas/job.ts";
import { api } from "../api.ts";
import { plural } from "../format.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import { At } from "../parts/time.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { usePlace } from "../router.tsx";
import { titleOf } from "../status.ts";
import { FileText } from "./file-text.tsx";
import { FileTree } from "./file-tree.tsx";
import { setParams } from "./place.ts";
import { DIRECTORY, runApi } from "./run-api.ts";

/** The code of a run: its files, one of them, and the diff to another run's code. */
export function CodeView({ job }: { job: JobRecord }) {
  const { query } = usePlace();
  const path = query.get("file");
  const other = query.get("diff");
  if (job.code_snapshot === null) return <p className="quiet pad">This run has no code snapshot.</p>;
  return (
    <div className="stack">
      <CodeTools job={job} other={other} />
      {other ? <DiffPanel key={other} job={job} other={other} /> : <Files job={job} path={path} />}
    </div>
  );
}

function CodeTools({ job, other }: { job: JobRecord; other: string | null }) {
  const { data } = useAnswer(() => api.jobs({ limit: 100 }));
  const offered = (data?.jobs ?? []).filter((each) => each.id !== job.id && each.code_snapshot !== null);
  return (
    <div className="code-tools">
      <select
        aria-label="Compare the code with the directory or another run's"
        value={other ?? ""}
        onChange={(event) => setParams({ diff: event.target.value || null })}
      >
        <option value="">Compare with…</option>
        <option value={DIRECTORY}>the project directory in its present state</option>
        {other && other !== DIRECTORY && !offered.some((each) => each.id === other) && (
          <option value={other}>{other}</option>
        )}
        {offered.map((each) => (
          <option key={each.id} value={each.id}>
            {each.code_snapshot === job.code_snapshot ? "same code: " : ""}
            {titleOf(each)} · {each.id}
          </option>
        ))}
      </select>
      {other && (
        <button type="button" className="button small" onClick={() => setParams({ diff: null })}>
          Back to the files
        </button>
      )}
      <a className="button small" href={runApi.codeTar(job.id)} download={`${job.id}-code.tar`}>
        Download, .tar
      </a>
    </div>
  );
}

function Files({ job, path }: { job: JobRecord; path: string | null }) {
  const { data, problem } = useAnswer(() => api.code(job.id));
  if (problem && !data) return <p className="bad pad">{problem.detail}</p>;
  if (!data) return <p className="quiet pad">Reading the files…</p>;
  const open = path ?? (data.files.some((file) => file.path === job.entrypoint) ? job.entrypoint : null);
  return (
    <div className="code-two">
      <section className="panel" aria-label="Files">
        <Taken code={data} />
        {job.left_out && <LeftOutList leftOut={job.left_out} />}
        <FileTree code={data} open={open} onOpen={(file) => setParams({ file }, { push: true })} />
      </section>
      <section className="panel code-file" aria-label="File">
        {open === null ? (
          <p className="quiet pad">Choose a file to read it.</p>
        ) : (
          <FileText
            key={open}
            id={job.id}
            path={open}
            size={data.files.find((file) => file.path === open)?.size ?? 0}
          />
        )}
      </section>
    </div>
  );
}

function Taken({ code }: { code: CodeSnapshot }) {
  return (
    <p className="quiet">
      {plural(code.files.length, "file")}, {bytes(code.bytes)}, taken <At at={code.created_at} />
      {code.git && (
        <>
          {" "}
          at <code>{code.git.commit.slice(0, 10)}</code>
          {code.git.branch && ` on ${code.git.branch}`}
          {code.git.dirty && ", with uncommitted changes"}
        </>
      )}
    </p>
  );
}

function DiffPanel({ job, other }: { job: JobRecord; other: string }) {
  const { data, problem, busy, reload } = useAnswer(() => runApi.codeDiff(job.id, other));
  if (problem && !data) return <NotCompared job={job} other={other} problem={problem} />;
  if (!data) return <p className="quiet pad">Comparing…</p>;
  return (
    <section className="panel" aria-labelledby="diff-title">
      <div className="panel-head">
        <h2 id="diff-title">
          From {job.id} to <bdi>{data.to.directory ?? other}</bdi>
        </h2>
        {other === DIRECTORY && (
          <button type="button" className="button small" aria-disabled={busy} onClick={() => busy || reload()}>
            {busy ? "Comparing…" : "Compare again"}
          </button>
        )}
      </div>
      {data.changes.length === 0 ? (
        <p className="quiet pad">The code is the same.</p>
      ) : (
        <>
          <DiffSum diff={data} />
          {data.changes.map((change) => (
            <Change key={change.path} change={change} />
          ))}
        </>
      )}
    </section>
  );
}

function NotCompared({ job, other, problem }: { job: JobRecord; other: string; problem: Problem }) {
  return (
    <div className="panel">
      <p className="bad">
        <bdi>{problem.detail}</bdi>
      </p>
      {other === DIRECTORY && (
        <p className="quiet">
          This is the directory on the control plane’s computer that the run was started from. To compare with another
          one, use <code>svc code diff {job.id} --dir DIR</code>.
        </p>
      )}
    </div>
  );
}

const DiffSum = ({ diff }: { diff: CodeDiff }) => (
  <p className="quiet">
    {plural(diff.changes.length, "file")} changed, <span className="diff-more">+{diff.added_lines}</span>{" "}
    <span className="diff-less">−{diff.removed_lines}</span>
  </p>
);

function Change({ change }: { change: CodeChange }) {
  const lines = useMemo(() => (change.patch ?? "").replace(/\n$/, "").split("\n"), [change.patch]);
  return (
    <details className="change" open={lines.length < 400}>
      <summary>
        {change.old_path !== null && change.old_path !== change.path && (
          <>
            <bdi>{inOrder(change.old_path)}</bdi> →{" "}
          </>
        )}
        <bdi>{inOrder(change.path)}</bdi> <span className="quiet">{change.status}</span>{" "}
        <span className="diff-more">+{change.added_lines}</span>{" "}
        <span className="diff-less">−{change.removed_lines}</span>
      </summary>
      {change.note && <p className="quiet">{change.note}</p>}
      {change.patch !== null && (
        <pre className="diff" tabIndex={0} role="region" aria-label={`Changes of ${change.path}`}>
          {lines.map((line, i) => (
            <span key={i} className={lineClass(line)}>
              {line}
              {"\n"}
            </span>
          ))}
        </pre>
      )}
    </details>
  );
}

const lineClass = (line: string): string =>
  line.startsWith("@@")
    ? "diff-hunk"
    : line.startsWith("+")
      ? "diff-added"
      : line.startsWith("-")
        ? "diff-removed"
        : "";
