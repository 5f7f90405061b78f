// `svc code diff`: a run's code compared with another run's, or with a directory.

import { statSync } from "node:fs";
import { resolve } from "node:path";
import { safeField, safeText } from "../../../domain/terminal-text.ts";
import type { CodeChange } from "../../../schemas/code.ts";
import type { CodeFile } from "../../../schemas/job.ts";
import { usage, value } from "../../argv.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { withJob, type OpenReads } from "../../store.ts";
import { printJson, table } from "../../text.ts";
import { codeDir, contents, snapshotOf } from "./snapshot.ts";

interface Side {
  job_id: string | null;
  code_snapshot: string | null;
  directory: string | null;
  files: readonly CodeFile[];
  read(file: CodeFile): Promise<Buffer>;
}

async function sideOf(reads: OpenReads, id: string, io: Io): Promise<Side> {
  const { readContent } = await contents();
  const snapshot = snapshotOf(reads, id);
  const read = (file: CodeFile): Promise<Buffer> => readContent(codeDir(io), snapshot.id, file);
  return { job_id: id, code_snapshot: snapshot.id, directory: null, files: snapshot.files, read };
}

async function directorySide(directory: string, like: readonly CodeFile[], io: Io): Promise<Side> {
  const { describeDirectory } = await contents();
  const { root, files, read } = await describeDirectory(directory, io.home(), { like });
  return { job_id: null, code_snapshot: null, directory: root, files, read };
}

export function diff([job = "", other]: string[], input: Input, io: Io): Promise<number> {
  const dir = value(input, "dir");
  if (other !== undefined && dir !== undefined)
    throw usage(
      "`svc code diff` compares with either a job or a directory, not both.",
      "Leave out --dir or the second job.",
    );
  return withJob(io, job, async (reads, id) => {
    const { diffCode, patches, unified } = await import("../../../files/code/diff.ts");
    const from = await sideOf(reads, id, io);
    const to =
      other === undefined
        ? await directorySide(dir === undefined ? projectOf(reads, id, io) : resolve(io.cwd, dir), from.files, io)
        : await sideOf(reads, reads.resolveJobId(other), io);
    const changes = await diffCode(from, to);
    if (input.json) {
      const side = ({ job_id, code_snapshot, directory }: Side) => ({ job_id, code_snapshot, directory });
      const lines = (of: "added_lines" | "removed_lines") => changes.reduce((sum, c) => sum + c[of], 0);
      const counts = { added_lines: lines("added_lines"), removed_lines: lines("removed_lines") };
      await printJson(io, { from: side(from), to: side(to), changes, ...counts });
    } else if (input.flags.has("stat")) await io.out(statOf(changes, io));
    else if (io.tty) for (const change of changes) await io.out(painted(unified(change), io));
    else for await (const patch of patches(changes, from, to)) await io.out(patch);
    return input.flags.has("exit-code") && changes.length > 0 ? 1 : 0;
  });
}

/** The job's project directory if it still exists; prints the compared directory if it is not the current one. */
function projectOf(reads: OpenReads, id: string, io: Io): string {
  const project = reads.job(id)?.spec["project_dir"];
  if (typeof project !== "string" || resolve(project) === io.cwd) return io.cwd;
  const there = statSync(project, { throwIfNoEntry: false })?.isDirectory() === true;
  if (there) io.err(`Compared with the job's project, ${safeField(project)}; use --dir to choose another directory.`);
  else io.err(`Compared with ${safeField(io.cwd)}: the job's project, ${safeField(project)}, no longer exists.`);
  return there ? project : io.cwd;
}

function statOf(changes: CodeChange[], io: Io): string {
  const name = (c: CodeChange): string => (c.status === "renamed" ? `${c.old_path} -> ${c.path}` : c.path);
  const paint = (status: string): string | null => ({ added: "32", removed: "31" })[status] ?? "33";
  const columns = [
    { title: "WHAT", paint },
    { title: "+", right: true },
    { title: "-", right: true },
    { title: "FILE" },
  ];
  if (changes.length === 0) return "";
  return table(
    io,
    [...columns, { title: "NOTE", shrinks: true }],
    changes.map((c) => [c.status, String(c.added_lines), String(c.removed_lines), name(c), c.note ?? ""]),
  );
}

/** Makes code harmless for a terminal; colours lines by their first character, as other tools do. */
function painted(text: string, io: Io): string {
  const safe = safeText(text);
  if (!io.color) return safe;
  const lines = safe.split("\n");
  let inHunk = false;
  return lines
    .map((line) => {
      if (line.startsWith("@@")) inHunk = true;
      if (!inHunk) return line === "" ? "" : `\u001b[1m${line}\u001b[0m`;
      const style = line.startsWith("@@") ? "36" : line.startsWith("+") ? "32" : line.startsWith("-") ? "31" : null;
      return style === null ? line : `\u001b[${style}m${line}\u001b[0m`;
    })
    .join("\n");
}
