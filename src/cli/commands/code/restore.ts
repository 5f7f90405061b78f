// `svc code restore`: writes a run's code into a directory.

import { resolve } from "node:path";
import { safeField } from "../../../domain/terminal-text.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { withJob } from "../../store.ts";
import { printJson } from "../../text.ts";
import { codeDir, counted, snapshotOf } from "./snapshot.ts";

const NAMED_MAX = 10;

export function restore([job = "", directory = ""]: string[], input: Input, io: Io): Promise<number> {
  return withJob(io, job, async (reads, id) => {
    const { restoreInto } = await import("../../../files/code/restore-code.ts");
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
