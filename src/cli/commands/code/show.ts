// `svc code show`: one file of a run's code.

import { bytes } from "../../../domain/bytes.ts";
import { safeField, safeText } from "../../../domain/terminal-text.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { withJob } from "../../store.ts";
import { printJson } from "../../text.ts";
import { listFiles } from "./ls.ts";
import { codeDir, contents, snapshotOf } from "./snapshot.ts";

export function show([job = "", path]: string[], input: Input, io: Io): Promise<number> {
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
