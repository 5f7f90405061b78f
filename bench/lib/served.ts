// `svc serve` as a user starts it, on a temporary home, with the measurements that are possible from outside.

import { spawn, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { pause } from "./measure.ts";
import { OUTCOMES } from "../../src/schemas/names.ts";

const ROOT = join(import.meta.dirname, "../..");
export const SVC = join(ROOT, "bin", "svc");
const CLOCK_TICKS = 100;

export class Served {
  readonly url: string;
  readonly readyMs: number;
  readonly #child: ChildProcess;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 4 });

  private constructor(child: ChildProcess, url: string, readyMs: number) {
    this.#child = child;
    this.url = url;
    this.readyMs = readyMs;
  }

  static start(home: string, cwd: string, env: NodeJS.ProcessEnv = {}): Promise<Served> {
    const start = performance.now();
    const child = spawn(SVC, ["serve", "--port", "0", "--json"], {
      cwd,
      env: { ...process.env, ...env, SVC_HOME: home },
      stdio: ["ignore", "pipe", "pipe"],
    });
    return new Promise((resolve, reject) => {
      let out = "";
      let err = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => (err = (err + text).slice(-4_000)));
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        out += text;
        const line = out.indexOf("\n");
        if (line < 0) return;
        const { url } = JSON.parse(out.slice(0, line)) as { url: string };
        resolve(new Served(child, url, performance.now() - start));
      });
      child.on("error", reject);
      child.on("exit", (code) => reject(new Error(`svc serve ended with ${code}: ${err}`)));
    });
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** Resident bytes, now. */
  rss(): number {
    return memory(this.pid, "VmRSS");
  }

  /** The maximum of its resident memory. */
  peak(): number {
    return memory(this.pid, "VmHWM");
  }

  /** Seconds of processor time so far. */
  cpuSeconds(): number {
    const stat = readFileSync(`/proc/${this.pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / CLOCK_TICKS;
  }

  /** Percent of a core that it uses while something else goes on. */
  async cpuDuring(work: () => Promise<unknown>): Promise<number> {
    const [before, at] = [this.cpuSeconds(), performance.now()];
    await work();
    return ((this.cpuSeconds() - before) / ((performance.now() - at) / 1_000)) * 100;
  }

  get(path: string): Promise<Answer> {
    return this.#ask("GET", path);
  }

  post(path: string, body: unknown): Promise<Answer> {
    return this.#ask("POST", path, JSON.stringify(body));
  }

  #ask(method: string, path: string, body?: string): Promise<Answer> {
    const start = performance.now();
    return new Promise((resolve, reject) => {
      const headers =
        body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
      const asked = request(this.url + path, { method, agent: this.#agent, headers }, (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("end", () =>
          resolve({ status: response.statusCode ?? 0, body: Buffer.concat(parts), ms: performance.now() - start }),
        );
        response.on("error", reject);
      });
      asked.on("error", (e: NodeJS.ErrnoException) => {
        // The server closed the idle connection at the moment when it was used again, and has answered nothing.
        if (asked.reusedSocket && e.code === "ECONNRESET") resolve(this.#ask(method, path, body));
        else reject(e);
      });
      asked.end(body);
    });
  }

  async submit(spec: Record<string, unknown>): Promise<string> {
    const answer = await this.post("/jobs", { spec });
    if (answer.status !== 201) throw new Error(`POST /jobs: ${answer.status} ${answer.body.toString()}`);
    return (JSON.parse(answer.body.toString()) as { id: string }).id;
  }

  async status(id: string): Promise<string> {
    return (JSON.parse((await this.get(`/jobs/${id}`)).body.toString()) as { status: string }).status;
  }

  /** Waits until the job has ended; resolves with its status. */
  async ended(id: string, everyMs = 20): Promise<string> {
    for (;;) {
      const status = await this.status(id);
      if (ENDED.has(status)) return status;
      await pause(everyMs);
    }
  }

  /** Ends it gracefully, as Ctrl-C does. */
  async stop(): Promise<void> {
    this.#agent.destroy();
    await this.#end("SIGINT");
  }

  async kill(): Promise<void> {
    this.#agent.destroy();
    await this.#end("SIGKILL");
  }

  #end(signal: NodeJS.Signals): Promise<void> {
    return new Promise((resolve) => {
      this.#child.removeAllListeners("exit").once("exit", () => resolve());
      this.#child.kill(signal);
    });
  }
}

interface Answer {
  status: number;
  body: Buffer;
  ms: number;
}

const ENDED = new Set<string>(OUTCOMES);

function memory(pid: number, field: string): number {
  const line = readFileSync(`/proc/${pid}/status`, "latin1")
    .split("\n")
    .find((l) => l.startsWith(`${field}:`));
  return Number(line?.replace(/[^0-9]/g, "")) * 1024;
}

/** Milliseconds from the start of a process to its end, which must be successful. */
export function wholeProcess(program: string, args: string[], env: NodeJS.ProcessEnv = process.env): Promise<number> {
  const start = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env, stdio: ["ignore", "ignore", "inherit"] });
    child.on("error", reject);
    child.on("exit", (code) =>
      code === 0 ? resolve(performance.now() - start) : reject(new Error(`${program} ended with ${code}`)),
    );
  });
}
