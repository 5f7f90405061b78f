import { SvcError } from "../../errors/index.ts";
import { nearest, usage } from "../argv.ts";
import { bytes } from "../../domain/bytes.ts";
import type { Command } from "../command.ts";
import type { Io } from "../io.ts";
import { openStore, withJob } from "../store.ts";
import { instant, printJson, safeField, table } from "../text.ts";

const ACTIONS = ["ls", "show", "diff", "restore"];

export const code: Command = {
  name: "code",
  args: "<action> [job]",
  summary: "Look at the code snapshots of runs: `ls` lists them, `show JOB` lists the files of one",
  options: [],
  exits: [["3", "no such job, or it has no snapshot"]],
  examples: ["svc code ls", "svc code show 4k2m"],
  async run(input, io) {
    const [action = "", job] = input.args;
    if (action === "ls" && job === undefined) return list(input.json, io);
    if (action === "ls" || action === "show") {
      if (job === undefined) throw usage(`\`svc code ${action}\` needs JOB.`, "Write `svc code show JOB`.");
      return show(job, input.json, io);
    }
    if (ACTIONS.includes(action))
      throw new SvcError("command_unavailable", {
        what: `This version of svc does not have \`svc code ${action}\`.`,
        instead: "`svc code show JOB` lists what a snapshot holds, with the hash of each file.",
      });
    const near = nearest(action, ACTIONS);
    throw usage(`There is no \`svc code ${action}\`.`, `${near ? `Did you mean ${near}? ` : ""}There are ls and show.`);
  },
};

async function list(json: boolean, io: Io): Promise<number> {
  const reads = await openStore(io);
  try {
    const jobs = (reads?.jobs({ limit: 500 }).jobs ?? []).filter((j) => j.code_snapshot !== null);
    if (json)
      await printJson(io, {
        snapshots: jobs.map((j) => ({ job_id: j.id, code_snapshot: j.code_snapshot, created_at: j.created_at })),
      });
    else
      await io.out(
        jobs.length
          ? table(
              io,
              [{ title: "JOB" }, { title: "SNAPSHOT" }, { title: "CREATED" }],
              jobs.map((j) => [j.id, j.code_snapshot ?? "", instant(io, j.created_at)]),
            )
          : "",
      );
    return 0;
  } finally {
    reads?.close();
  }
}

const show = (job: string, json: boolean, io: Io): Promise<number> =>
  withJob(io, job, async (reads, id) => {
    const snapshot = reads.code(id);
    if (!snapshot) throw new SvcError("file_not_found", { path: "with a code snapshot" });
    if (json) {
      await printJson(io, { job_id: id, ...snapshot });
      return 0;
    }
    await io.out(
      table(
        io,
        [{ title: "SIZE", right: true }, { title: "SHA-256" }, { title: "FILE" }],
        snapshot.files.map((f) => [
          io.tty ? bytes(f.size) : String(f.size),
          io.tty ? f.sha256.slice(0, 12) : f.sha256,
          f.path,
        ]),
      ),
    );
    if (io.tty)
      io.err(
        `${snapshot.files.length} files, ${bytes(snapshot.bytes)}${snapshot.git ? `, git ${safeField(snapshot.git.commit.slice(0, 12))}${snapshot.git.dirty ? " with changes" : ""}` : ""}`,
      );
    return 0;
  });
