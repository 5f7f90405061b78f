// `svc ssh`: a shell on the machine of a run, by the system's own ssh with the pinned host key.

import { runsHere } from "../../providers/descriptors.ts";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { withoutSecrets } from "../../domain/secret-names.ts";
import { inAnyShell, quote } from "../../domain/shell-words.ts";
import { SvcError } from "../../errors/index.ts";
import type { Command } from "../command.ts";
import { whole } from "../argv.ts";
import { printJson } from "../text.ts";
import { withJob } from "../store.ts";
import { homeLayout } from "../../platform/home-layout.ts";

/** Opens the shell in the project folder, or, if it has not arrived, in the login's home. */
const shellIn = (folder: string): string => inAnyShell(`cd ${quote(folder)} 2>/dev/null; exec "\${SHELL:-/bin/sh}" -l`);

export const ssh: Command = {
  name: "ssh",
  args: "<job> [...command]",
  summary: "Open a shell on the machine of a run, or run one command there",
  options: [{ flags: "--node <n>", what: "The node, for a run on several machines (default 0)" }],
  exits: [
    ["1", "a local run, which has no machine to log in to"],
    ["3", "no such job, or it has no machine now"],
  ],
  examples: ["svc ssh 4k2m", "svc ssh 4k2m nvidia-smi", "svc ssh 4k2m --node 1"],
  completes: (before) => (before.length === 0 ? "active jobs" : []),
  async run(input, io) {
    const [prefix = "", ...command] = input.args;
    const node = whole(input, "node", { min: 0, max: 63 }) ?? 0;
    const handle = await withJob(io, prefix, (reads, id) => {
      const job = reads.job(id);
      if (job !== null && runsHere(job.provider))
        throw new SvcError("command_unavailable", {
          what: `Job ${id} is a local run, which has no machine to log in to.`,
          instead: existsSync(homeLayout.node(io.home(), id, 0))
            ? `Its run directory is ${homeLayout.node(io.home(), id, 0)}.`
            : `It has ended; its files are in ${homeLayout.artifactsOf(io.home(), id)}, and \`svc logs ${id}\` prints its log.`,
        });
      const held = reads.heldHandle(id, node);
      if (held === null) throw new SvcError("machine_not_held", { job: id, node, status: job?.status ?? "gone" });
      return Promise.resolve(held);
    });
    const { shellCommand } = await import("../../app/rented.ts");
    // svc wrote it, from a checked answer of the provider.
    const { argv, project } = await shellCommand({ home: io.home(), env: process.env }, JSON.parse(handle));
    const words = command.length > 0 || project === null ? [...argv, ...command] : [...argv, shellIn(project)];
    // A shell that is requested by a command does not get a terminal by default.
    if (command.length === 0 && process.stdin.isTTY) words.unshift("-t");
    if (input.json) {
      await printJson(io, { argv: ["ssh", ...words] });
      return 0;
    }
    const child = spawn("ssh", words, { stdio: "inherit", env: withoutSecrets(process.env) });
    return new Promise<number>((resolve, reject) => {
      child.once("error", (cause: NodeJS.ErrnoException) =>
        reject(
          cause.code === "ENOENT"
            ? new SvcError("command_unavailable", {
                what: "The program ssh is not on the PATH.",
                instead: "Install the OpenSSH client; `svc doctor` says how.",
              })
            : cause,
        ),
      );
      child.once("close", (code, signal) => resolve(code ?? (signal === "SIGINT" ? 130 : 1)));
    });
  },
};
