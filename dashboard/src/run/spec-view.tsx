import { useEffect, useState } from "react";
import type { CodeSnapshot, JobRecord, Problem } from "../../../src/schemas/job.ts";
import { api, asProblem } from "../api.ts";
import { bytes, plural } from "../format.ts";
import { At } from "../parts/time.tsx";

const FILES_MAX = 500;

export function SpecView({ job }: { job: JobRecord }) {
  return (
    <div className="two">
      <section className="panel" aria-labelledby="spec-title">
        <h2 id="spec-title">Spec</h2>
        <dl className="spec">
          {Object.entries(job.spec).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                <SpecValue value={value} />
              </dd>
            </div>
          ))}
        </dl>
      </section>
      <section className="panel" aria-labelledby="code-title">
        <h2 id="code-title">Code snapshot</h2>
        {job.code_snapshot === null ? <p className="quiet pad">None was taken.</p> : <Code id={job.id} />}
      </section>
    </div>
  );
}

function SpecValue({ value }: { value: unknown }) {
  const empty = value === null || (typeof value === "object" && Object.keys(value ?? {}).length === 0);
  if (empty) return <span className="quiet">none</span>;
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return <code>{value.join("\n")}</code>;
  return <code>{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</code>;
}

function Code({ id }: { id: string }) {
  const [code, setCode] = useState<CodeSnapshot | Problem | null>(null);
  useEffect(() => {
    let gone = false;
    api.code(id).then(
      (answer) => !gone && setCode(answer),
      (error: unknown) => !gone && setCode(asProblem(error)),
    );
    return () => void (gone = true);
  }, [id]);
  if (code === null) return <p className="quiet pad">Reading the files…</p>;
  if (!("files" in code)) return <p className="bad pad">{code.detail}</p>;
  return (
    <>
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
      <div className="file-list" tabIndex={0} role="region" aria-label="Files of the snapshot">
        <table className="files">
          <thead>
            <tr>
              <th scope="col">File</th>
              <th scope="col" className="right">
                Size
              </th>
            </tr>
          </thead>
          <tbody>
            {code.files.slice(0, FILES_MAX).map((file) => (
              <tr key={file.path}>
                <td>
                  <bdi>{file.path}</bdi>
                  {file.mode === "executable" && <span className="quiet"> executable</span>}
                </td>
                <td className="right num">{bytes(file.size)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {code.files.length > FILES_MAX && (
        <p className="quiet">And {plural(code.files.length - FILES_MAX, "more file")}.</p>
      )}
    </>
  );
}
