// Reaches sshd through a command from the owner's own configuration.

import { spawn } from "node:child_process";
import { Duplex } from "node:stream";
import type { SshEndpoint } from "../domain/endpoint.ts";
import { lastChars } from "../domain/terminal-text.ts";
import { started } from "../platform/started.ts";
import { childEnvironment } from "./child-environment.ts";
import { shortLine } from "./words.ts";

const WORDS_MAX = 2_000;

export interface ProxiedStream {
  stream: Duplex;
  /** The last output of the command on stderr, and how it ended. */
  words(): string;
  /** Resolves once the command has ended and all of its output is known. */
  readonly ended: Promise<void>;
  /** Ends the command and every process that it started. */
  end(): void;
}

/**
 * The command with `%h`, `%p` and `%r` filled in as ssh does; the endpoint's pattern excludes every character that a
 * shell interprets.
 */
export function proxyCommandOf(endpoint: SshEndpoint & { proxyCommand: string }): string {
  const values: Record<string, string> = { h: endpoint.host, p: String(endpoint.port), r: endpoint.user, "%": "%" };
  return endpoint.proxyCommand.replace(/%([hpr%])/g, (_, letter: string) => values[letter] ?? "");
}

/** Starts the command; its standard streams are the connection. Rejects if this computer cannot start it. */
export async function openProxy(endpoint: SshEndpoint & { proxyCommand: string }): Promise<ProxiedStream> {
  const child = await started(
    spawn("sh", ["-c", proxyCommandOf(endpoint)], {
      stdio: ["pipe", "pipe", "pipe"],
      // A process group of its own, so that the shell's children end with it.
      detached: true,
      env: childEnvironment(),
    }),
  );
  let said = "";
  let ending = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-WORDS_MAX - 1)));
  const stream = Duplex.from({ readable: child.stdout, writable: child.stdin });
  const ended = Promise.withResolvers<void>();
  child.on("close", (code, signal) => {
    ending = signal ? `it was ended by ${signal}` : `it ended with exit code ${code}`;
    stream.destroy();
    ended.resolve();
  });
  return {
    stream,
    ended: ended.promise,
    words: () => shortLine([ending, lastChars(said, WORDS_MAX).trim()].filter((part) => part !== "").join(": ")),
    end: () => {
      stream.destroy();
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
      try {
        process.kill(-child.pid, "SIGTERM");
      } catch {
        // It ended meanwhile.
      }
    },
  };
}
