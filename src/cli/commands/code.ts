import { statSync } from "node:fs";
import { resolve } from "node:path";
import { bytes } from "../../domain/bytes.ts";
import { SvcError } from "../../errors/index.ts";
import type { CodeChange, LeftOutList } from "../../schemas/code.ts";
import type { CodeFile, CodeSnapshot } from "../../schemas/job.ts";
import { runAction } from "../actions.ts";
import { usage, value } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import type { Io } from "../io.ts";
import { everyJob, storeOfHome, withJob, type OpenReads } from "../store.ts";
import { safeField, safeText } from "../../domain/terminal-text.ts";
import { instant, printJson, table } from "../text.ts";
import { homeLayout } from "../../platform/home-layout.ts";

// Code that reads and compares files is loaded when it is used.
const contents = () => import("../../files/code/contents.ts");

const ACTIONS = {
  ls: { usage: "svc code ls [JOB]", least: 0, most: 1, flags: ["left-out"], run: ls },
  show: { usage: "svc code show JOB [FILE]", least: 1, most: 2, flags: [], run: show },
  diff: { usage: "svc code diff JOB [JOB]", least: 1, most: 2, flags: ["dir", "stat", "exit-code"], run: diff },
  restore: { usage: "svc code restore JOB DIR", least: 2, most: 2, flags: ["force"], run: restore },
};

export const code: Command = {
  name: "code",
  args: "[action] [...args]",
  summary: "The code that runs were started with: ls [JOB], show JOB [FILE], diff JOB [JOB], restore JOB DIR",
  options: [
    {
      flags: "--left-out",
      what: "ls: list what is excluded from the code, and why; without JOB, for the current directory",
    },
    { flags: "--dir <dir>", what: "diff: compare with this directory (default: the current one)" },
    { flags: "--stat", what: "diff: list only which files differ, and by how many lines" },
    { flags: "--exit-code", what: "diff: exit with code 1 when anything differs" },
    { flags: "--force", what: "restore: replace files that differ" },
  ],
  exits: [["3", "no such job, or it has no such file"]],
  examples: [
    "svc code ls 4k2m",
    "svc code ls --left-out",
    "svc code show 4k2m train.py",
    "svc code diff 4k2m",
    "svc code diff 4k2m 4k9x --stat",
    "svc code restore 4k2m ./as-it-was",
  ],
  run: (input, io) => runAction("code", ACTIONS, input, io),
};

async function ls([job]: string[], input: Input, io: Io): Promise<number> {
  if (input.flags.has("left-out")) return leftOut(job, input, io);
  if (job !== undefined) return listFiles(job, input, io);
  const reads = await storeOfHome(io);
  try {
    const jobs = [...(reads ? everyJob(reads) : [])].filter((j) => j.code_snapshot !== null);
    if (input.json)
      await printJson(io, {
        snapshots: jobs.map((j) => ({ job_id: j.id, code_snapshot: j.code_snapshot, created_at: j.created_at })),
      });
    else if (jobs.length > 0)
      await io.out(
        table(
          io,
          [{ title: "JOB" }, { title: "SNAPSHOT" }, { title: "CREATED" }],
          jobs.map((j) => [j.id, j.code_snapshot ?? "", instant(io, j.created_at)]),
        ),
      );
    else if (io.tty) io.err("No run with code yet. `svc run` shows how to start one.");
    return 0;
  } finally {
    reads?.close();
  }
}

const NAMED_MAX = 10;
const counted = (n: number): string => (n === 1 ? "1 file was" : `${n} files were`);

/**
 * Lists the files that a run's submission excluded; without a run, the files that a submission of this directory would
 * exclude now.
 */
async function leftOut(job: string | undefined, input: Input, io: Io): Promise<number> {
  const { leftOutList, readLeftOut } = await import("../../files/listing/left-out.ts");
  if (job !== undefined)
    return withJob(io, job, async (reads, id) => {
      const recorded = reads.leftOutList(id);
      const list = recorded === null ? null : await readLeftOut(codeDir(io), recorded);
      const short = reads.job(id)?.left_out ?? null;
      return tellLeftOut(
        list ?? { ...(short ?? { count: 0, names: [], ignored: 0 }), ignored_names: [] },
        id,
        input,
        io,
      );
    });
  const { listProject } = await import("../../files/listing/project-listing.ts");
  const { checkProjectDir } = await import("../../files/listing/project-files.ts");
  const listing = await listProject(await checkProjectDir(io.cwd, io.home()), { ignored: true, beyond: "leave-out" });
  return tellLeftOut(leftOutList(listing), null, input, io);
}

async function tellLeftOut(list: LeftOutList, job: string | null, input: Input, io: Io): Promise<number> {
  if (input.json) {
    await printJson(io, { job_id: job, ...list });
    return 0;
  }
  const rows = [
    ...list.names.map(({ path, why }) => [path, why]),
    ...list.ignored_names.map((path) => [path, "git ignores it"]),
  ];
  if (rows.length > 0) await io.out(table(io, [{ title: "LEFT OUT" }, { title: "WHY", shrinks: true }], rows));
  const unnamed = list.count + list.ignored - rows.length;
  if (unnamed > 0) io.err(`and ${unnamed} more that are not listed here.`);
  if (io.tty && rows.length === 0) io.err("Nothing is left out.");
  return 0;
}

function snapshotOf(reads: OpenReads, id: string, options: { restored?: boolean } = {}): CodeSnapshot {
  const snapshot = reads.code(id, options);
  if (!snapshot) throw new SvcError("code_snapshot_missing", { job: id });
  return snapshot;
}

const listFiles = (job: string, input: Input, io: Io): Promise<number> =>
  withJob(io, job, async (reads, id) => {
    const snapshot = snapshotOf(reads, id);
    if (input.json) {
      await printJson(io, { job_id: id, ...snapshot });
      return 0;
    }
    const columns = [{ title: "MODE" }, { title: "SIZE", right: true }, { title: "SHA-256" }, { title: "FILE" }];
    const recorded = snapshot.files.filter((f) => f.kept === false).length;
    if (recorded > 0) columns.push({ title: "KEPT" });
    await io.out(
      table(
        io,
        columns,
        snapshot.files.map((f) => [
          f.mode === "executable" ? "755" : "644",
          io.tty ? bytes(f.size) : String(f.size),
          f.sha256 === null ? "-" : io.tty ? f.sha256.slice(0, 12) : f.sha256,
          f.path,
          ...(recorded > 0 ? [f.kept === false ? "no" : "yes"] : []),
        ]),
      ),
    );
    const git = snapshot.git && `, git ${snapshot.git.commit.slice(0, 12)}${snapshot.git.dirty ? " with changes" : ""}`;
    if (io.tty) io.err(`${snapshot.files.length} files, ${bytes(snapshot.bytes)}${safeField(git ?? "")}`);
    if (io.tty && recorded > 0)
      io.err(`${counted(recorded)} recorded but not copied: data of a run that used the project directory itself.`);
    return 0;
  });

function show([job = "", path]: string[], input: Input, io: Io): Promise<number> {
  if (path === undefined) return listFiles(job, input, io);
  return withJob(io, job, async (reads, id) => {
    const { fileIn, readContent, decodedText } = await contents();
    const snapshot = snapshotOf(reads, id);
    const file = fileIn(snapshot, path);
    const content = await readContent(codeDir(io), snapshot.id, file);
    const text = decodedText(content);
    if (input.json) {
      const held = text === null ? { base64: content.toString("base64") } : { text };
      await printJson(io, { job_id: id, code_snapshot: snapshot.id, ...file, ...held });
    } else if (!io.tty) await io.out(content);
    else if (text === null)
      io.err(`${safeField(file.path)} is not a text file (${bytes(file.size)}). Write it to a file with \`> FILE\`.`);
    else await io.out(safeText(text));
    return 0;
  });
}

const codeDir = (io: Io): string => homeLayout.code(io.home());

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

function diff([job = "", other]: string[], input: Input, io: Io): Promise<number> {
  const dir = value(input, "dir");
  if (other !== undefined && dir !== undefined)
    throw usage(
      "`svc code diff` compares with either a job or a directory, not both.",
      "Leave out --dir or the second job.",
    );
  return withJob(io, job, async (reads, id) => {
    const { diffCode, patches, unified } = await import("../../files/code/diff.ts");
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

function restore([job = "", directory = ""]: string[], input: Input, io: Io): Promise<number> {
  return withJob(io, job, async (reads, id) => {
    const { restoreInto } = await import("../../files/code/restore-code.ts");
    const snapshot = snapshotOf(reads, id, { restored: true });
    const force = input.flags.has("force");
    const done = await restoreInto({ codeDir: codeDir(io), snapshot, directory: resolve(io.cwd, directory), force });
    if (input.json) await printJson(io, { job_id: id, code_snapshot: snapshot.id, ...done });
    else {
      const replaced = done.replaced.length > 0 ? `, ${done.replaced.length} of them replacing other files` : "";
      const same = done.same > 0 ? `; ${done.same} were already there` : "";
      const names = done.not_kept.slice(0, NAMED_MAX).join(", ");
      const more = done.not_kept.length > NAMED_MAX ? ` and ${done.not_kept.length - NAMED_MAX} more` : "";
      if (names !== "")
        io.err(
          `${counted(done.not_kept.length)} not restored, because their content was not recorded: ${safeField(names + more)}.`,
        );
      io.err(`${done.written.length} files written into ${safeField(done.directory)}${replaced}${same}.`);
    }
    return 0;
  });
}
