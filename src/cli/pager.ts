// Shows a long text through the pager of a person at a terminal. `svc docs` and `svc help TOPIC` use it.

import { spawn } from "node:child_process";
import { withoutSecrets } from "../domain/secret-names.ts";
import type { Io } from "./io.ts";

/** Prints the text itself in a pipe, with `PAGER=cat` or without a pager on this computer. */
export async function page(io: Io, text: string): Promise<void> {
  const pager = io.env["SVC_PAGER"] ?? io.env["PAGER"] ?? "less";
  if (!io.tty || pager === "" || pager === "cat" || io.env["TERM"] === "dumb") return io.out(text);
  const env = { LESS: "FRX", ...withoutSecrets(io.env) };
  const isShown = await new Promise<boolean>((resolve) => {
    // PAGER may contain arguments, as `less -S`.
    const child = spawn("/bin/sh", ["-c", pager], { stdio: ["pipe", "inherit", "inherit"], env });
    child.once("error", () => resolve(false));
    // 127: the shell found no such program.
    child.once("close", (code) => resolve(code !== 127));
    // A pager that is left early closes its input.
    child.stdin.on("error", () => {});
    child.stdin.end(text);
  });
  if (!isShown) await io.out(text);
}
