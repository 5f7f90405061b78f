import type { JobRecord } from "../../../src/schemas/job.ts";
import { api } from "../api.ts";
import { bytes, plural } from "../format.ts";
import { At } from "../parts/time.tsx";
import { isActive } from "../status.ts";
import { useData } from "../store.ts";

export function CheckpointsView({ job }: { job: JobRecord }) {
  const files = useData((data) => data.checkpoints[job.id]);
  if (!files) return <p className="quiet pad">Reading the checkpoints…</p>;
  if (files.length === 0) {
    return (
      <p className="quiet pad">
        {isActive(job) ? "None yet. " : "The run left no checkpoint. "}
        What a script writes to <code>svc.checkpoint_dir()</code> is listed here.
      </p>
    );
  }
  const newest = [...files].sort((a, b) => b.modified_at.localeCompare(a.modified_at));
  return (
    <section className="panel" aria-label="Checkpoints">
      <p className="quiet">
        {plural(files.length, "file")}, {bytes(files.reduce((sum, file) => sum + file.size, 0))}. Open a checkpoint only
        when you trust the run that wrote it.
      </p>
      <table className="files">
        <thead>
          <tr>
            <th scope="col">File</th>
            <th scope="col" className="right">
              Size
            </th>
            <th scope="col" className="right">
              Written
            </th>
          </tr>
        </thead>
        <tbody>
          {newest.map((file) => (
            <tr key={file.path}>
              <td>
                <a href={api.checkpointUrl(job.id, file.path)} download={file.path.split("/").at(-1)}>
                  <bdi>{file.path}</bdi>
                </a>
              </td>
              <td className="right num">{bytes(file.size)}</td>
              <td className="right num">
                <At at={file.modified_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
