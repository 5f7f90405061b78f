// `svc debug-dump` packs what a maintainer needs to understand a run into one archive, without a secret in it. It reads
// the store alone, so that it works when the control plane does not. debug-dump/contents.ts collects, debug-dump/archive.ts writes.

import { resolve } from "node:path";
import { bytes } from "../../domain/bytes.ts";
import { value } from "../argv.ts";
import type { Command } from "../command.ts";
import { withJob } from "../store.ts";
import { printJson } from "../text.ts";
import { writeArchive } from "./debug-dump/archive.ts";
import { dumpContents } from "./debug-dump/contents.ts";

export const debugDump: Command = {
  name: "debug-dump",
  args: "<job>",
  summary: "Pack record, timeline, events, log tail and versions of a run into an archive without secrets",
  options: [{ flags: "-o, --output <file>", what: "The archive (default svc-debug-JOB.tar.gz in this folder)" }],
  exits: [["3", "no such job"]],
  examples: ["svc debug-dump 4k2m", "svc debug-dump last -o /tmp/run.tar.gz"],
  run: (input, io) =>
    withJob(io, input.args[0] ?? "", async (reads, id) => {
      const contents = dumpContents(reads, id, io);
      const target = resolve(io.cwd, value(input, "output") ?? `svc-debug-${id}.tar.gz`);
      const size = await writeArchive(contents, target);
      const files = Object.keys(contents);
      if (input.json) await printJson(io, { file: target, bytes: size, files });
      else {
        await io.out(`${target}\n`);
        io.err(`${bytes(size)}: ${files.join(", ")}. Known secrets are masked; look through it before you share it.`);
      }
      return 0;
    }),
};
