// `svc code ls`: lists the runs that have code, the files of one run, or the excluded files.

import { bytes } from "../../../domain/bytes.ts";
import { safeField } from "../../../domain/terminal-text.ts";
import type { LeftOutList } from "../../../schemas/code.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { everyJob, withJob, withStore } from "../../store.ts";
import { instant, printJson, table } from "../../text.ts";
import { codeDir, counted, snapshotOf } from "./snapshot.ts";

export async function ls([job]: string[], input: Input, io: Io): Promise<number> {
  if (input.flags.has("left-out")) return leftOut(job, input, io);
  if (job !== undefined) return listFiles(job, input, io);
  return withStore(io, async (reads) => {
    const jobs = [...(reads ? everyJob(reads, { archived: "all" }) : [])].filter((j) => j.code_snapshot !== null);
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
  });
}

/**
 * Lists the files that a run's submission excluded; without a run, the files that a submission of this directory would
 * exclude now.
 */
async function leftOut(job: string | undefined, input: Input, io: Io): Promise<number> {
  const { leftOutList, readLeftOut } = await import("../../../files/listing/left-out.ts");
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
  const { listProject } = await import("../../../files/listing/project-listing.ts");
  const { checkProjectDir } = await import("../../../files/listing/project-files.ts");
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

export const listFiles = (job: string, input: Input, io: Io): Promise<number> =>
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
