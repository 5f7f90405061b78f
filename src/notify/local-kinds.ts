// Sends messages on this computer: a notification of the desktop, or a command of the user.
//
// C1. No shell: the texts of a message are arguments and input, never part of a command line.
// C2. The command reads the message as JSON on its standard input. It gets PATH, HOME and the like, and no variable with a secret.
// C3. The attempt ends by its signal: the process and its group are killed.
// C4. Other users of the computer can read the arguments of a process, so those of the desktop's program hold no line of a log.

import { spawn } from "node:child_process";
import { platform } from "node:os";
import { messageOf as wordsOf, SvcError } from "../errors/index.ts";
import { oneLine, safeText, withoutMarkup } from "../domain/terminal-text.ts";
import { textOfMessage, type NotifyMessage } from "./message.ts";
import { saidBy, type Send, type SendContext } from "./sender.ts";

/** The beginning of what a failed command wrote, for the error. */
const WORDS_BYTES = 2_000;
const BODY_MAX = 600;
/** Variables that a program needs to find its session, its files and its language. */
const PASSED = [
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "LANG",
  "LC_ALL",
  "TZ",
  "TMPDIR",
  "DISPLAY",
  "WAYLAND_DISPLAY",
  "XDG_RUNTIME_DIR",
  "DBUS_SESSION_BUS_ADDRESS",
] as const;

export const sendCommand: Send<"command"> = async (message, target, context) => {
  const [program = "", ...args] = target.argv;
  await run(program, args, `${JSON.stringify({ ...message, text: textOfMessage(message) })}\n`, context);
};

export const sendDesktop: Send<"desktop"> = async (message, _target, context) => {
  const { program, args } = desktopCommand(message, platform());
  await run(program, args, "", context);
};

/** C4. */
export function desktopCommand(message: NotifyMessage, system: NodeJS.Platform): { program: string; args: string[] } {
  const title = oneLine(message.title, 120);
  const body = safeText(textOfMessage({ ...message, log: [] })).slice(0, BODY_MAX);
  if (system === "darwin") {
    const script = ["on run argv", "display notification (item 3 of argv) with title (item 2 of argv)", "end run"];
    // Options end at the first other word: a title that begins with a dash is none.
    return { program: "osascript", args: [...script.flatMap((line) => ["-e", line]), "svc", title, body] };
  }
  const urgency = message.level === "urgent" ? "critical" : "normal";
  // Some desktops read markup in the body.
  const args = [`--urgency=${urgency}`, "--app-name=svc", "--", title, withoutMarkup(body)];
  return { program: "notify-send", args };
}

/** Resolves when the program has ended with 0. */
function run(program: string, args: readonly string[], input: string, context: SendContext): Promise<void> {
  const { name, signal } = context;
  const failed = (why: string): SvcError => new SvcError("notify_unreachable", { target: name, why });
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(failed("it did not end in time"));
    const env = Object.fromEntries(
      PASSED.flatMap((key) => (context.env[key] === undefined ? [] : [[key, context.env[key]]])),
    );
    const child = spawn(program, args, { env, stdio: ["pipe", "ignore", "pipe"], detached: true });
    let words = "";
    const kill = (): void => {
      if (child.pid !== undefined) killGroup(child.pid);
      reject(failed("it did not end in time"));
    };
    signal.addEventListener("abort", kill, { once: true });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      if (words.length < WORDS_BYTES) words += text;
    });
    // A program need not read its input.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
    child.on("error", (e) => {
      signal.removeEventListener("abort", kill);
      reject(failed(`${program} cannot be started (${saidBy(wordsOf(e), context)})`));
    });
    child.on("close", (code, ending) => {
      signal.removeEventListener("abort", kill);
      if (code === 0) resolve();
      else reject(failed(`${program} ended with ${code ?? ending ?? "an error"}: ${saidBy(words, context)}`));
    });
  });
}

/** C3. */
function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}
