// The agent and its client, which does not trust it: over plain pipes, with shells that print text of their own,
// machines without Python, and agents that lie.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Duplex, PassThrough, type Readable, type Writable } from "node:stream";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { Redactor } from "../../src/domain/redaction.ts";
import type { SvcError } from "../../src/errors/index.ts";
import { AGENT_COMMAND, AgentClient, AgentRefusal, type AgentChannel } from "../../src/ssh/agent-client.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { Frames } from "./agent-frames.ts";
import { agentPath, never } from "./machine.ts";

const source = readFileSync(agentPath);
const folder = mkdtempSync(join(tmpdir(), "svc-agent-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A command's streams as one channel, as an exec over SSH gives them. */
function channelOf(argv: string[], env: NodeJS.ProcessEnv = {}): { channel: AgentChannel; child: ChildProcess } {
  const child = spawn(argv[0]!, argv.slice(1), {
    stdio: "pipe",
    env: { PATH: process.env["PATH"], HOME: folder, ...env },
  });
  const { stdin, stdout, stderr } = child as ChildProcess & { stdin: Writable; stdout: Readable; stderr: Readable };
  // As over SSH: input that an ended command did not read is not an error of the output.
  stdin.on("error", () => undefined);
  const duplex = new Duplex({
    read: () => undefined,
    write: (data, _, done) => stdin.write(data, () => done()),
    destroy: (error, done) => {
      stdin.destroy();
      stdout.destroy();
      done(error);
    },
  });
  stdout.on("data", (data) => duplex.push(data)).on("end", () => duplex.push(null));
  const channel: AgentChannel = Object.assign(duplex, { stderr });
  child.on("exit", (code) => channel.emit("exit", code));
  onTestFinished(() => void child.kill("SIGKILL"));
  return { channel, child };
}

const open = (channel: AgentChannel, timeoutMs = DEADLINE_MS): Promise<AgentClient> =>
  AgentClient.open(channel, { machine: "m1", source, signal: never, timeoutMs });

const realAgent = async (shell = ["sh", "-c"], env: NodeJS.ProcessEnv = {}) => {
  const { channel, child } = channelOf([...shell, AGENT_COMMAND], env);
  return { client: await open(channel), child };
};

const Any = z.unknown();
const ask = (client: AgentClient, op: string, args: Record<string, unknown> = {}, more = {}) =>
  client.call(op, args, Any, { signal: never, ...more });

describe("the agent", () => {
  it("starts in any login shell, describes the machine, and ends with its stdin", async () => {
    for (const shell of ["sh", "dash", "bash", "zsh", "fish", "csh"]) {
      if (spawnSync(shell, ["-c", "true"]).status !== 0) continue;
      const { client, child } = await realAgent([shell, "-c"]);
      const { value } = await ask(client, "hello", { name: "m1" });
      expect(value).toMatchObject({
        facts: { home: folder, rsync: expect.any(Boolean) },
        machine: null,
        marked: false,
      });
      const over = new Promise((resolve) => child.once("exit", resolve));
      client.close();
      expect(await over).toBe(0);
    }
  });

  it("does not wait for a pipe that a script put in place of a file of its run", async () => {
    const { client } = await realAgent();
    const dir = mkdtempSync(join(folder, "piped-"));
    mkdirSync(join(dir, "spool"));
    for (const name of ["status.json", "spec.json", "samples.jsonl", "spool.idx", "acked", "spool/000000000000"])
      spawnSync("mkfifo", [join(dir, name)]);
    expect((await ask(client, "status", { dir })).value).toMatchObject({ status: null });
    expect((await ask(client, "read_log", { dir, offset: 0, max: 100 })).value).toMatchObject({ log_bytes: 0 });
    expect((await ask(client, "read_samples", { dir, offset: 0 })).bytes).toHaveLength(0);
    expect((await ask(client, "list", { dir })).bytes).toHaveLength(0);
    await expect(ask(client, "ack", { dir, offset: 1 })).rejects.toBeInstanceOf(AgentRefusal);
    client.close();
  });

  it("skips the shell's output before it, and keeps it", async () => {
    const greeting = "echo 'Welcome to GPU 7!'; echo SVC-AGENT deadbeef; printf 'no line end'";
    const client = await open(channelOf(["sh", "-c", `${greeting}; ${AGENT_COMMAND}`]).channel);
    expect(client.greeting).toContain("Welcome to GPU 7!");
    expect((await ask(client, "status", { dir: join(folder, "none") })).value).toMatchObject({ status: null });
  });

  it("lists the tried Pythons if there is none, and skips programs that only have the name", async () => {
    const bin = join(folder, "bin");
    mkdirSync(bin);
    symlinkSync("/bin/sh", join(bin, "sh"));
    const run = AGENT_COMMAND.replaceAll("/opt/conda/bin/python3 /usr/local/bin/python3 /usr/bin/python3 ", "");
    const none = channelOf(["/bin/sh", "-c", run], { PATH: bin });
    await expect(open(none.channel)).rejects.toMatchObject({
      code: "machine_unfit",
      message: expect.stringContaining("no Python 3.8 or newer (tried python3, /opt/conda"),
      data: { image: true },
    });
    const real = spawnSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).stdout.trim();
    symlinkSync(real, join(bin, "python"));
    const shims = [
      "exit 1",
      "echo 'python3: command not found' >&2; exit 127",
      "echo False",
      "echo 'Choose a version: pyenv install 3.12'",
      "while read -r line; do echo got it; done",
      "kill -9 $$",
    ];
    for (const shim of shims) {
      writeFileSync(join(bin, "python3"), `#!/bin/sh\n${shim}\n`, { mode: 0o755 });
      const client = await open(channelOf(["/bin/sh", "-c", run], { PATH: bin }).channel);
      expect(client.greeting, shim).toBe("");
      const { value } = await ask(client, "hello", { name: "m" });
      // This also holds for the run's own Python.
      expect(value, shim).toMatchObject({ facts: { python: join(bin, "python") } });
      client.close();
    }
  });

  it("quotes the shell's output if that ran nothing", async () => {
    const { channel } = channelOf(["sh", "-c", 'echo "Please login as the user ubuntu"; exit 142']);
    await expect(open(channel)).rejects.toMatchObject({
      code: "machine_unfit",
      message: expect.stringMatching(/code 142.*Please login as the user ubuntu/),
    });
    const silent = channelOf(["sh", "-c", "exit 3"]);
    await expect(open(silent.channel)).rejects.toMatchObject({
      code: "machine_unfit",
      message: expect.stringMatching(
        /ended with code 3 before it ran anything, and said nothing: .*\.bashrc/,
      ) as string,
    });
    const endless = channelOf(["sh", "-c", "yes hello"]);
    await expect(open(endless.channel)).rejects.toMatchObject({ message: expect.stringContaining("without end") });
    const mute = channelOf(["sh", "-c", "sleep 60"]);
    await expect(open(mute.channel, 300)).rejects.toMatchObject({ code: "ssh_unreachable" });
  });

  it.each(["bash", "dash", "zsh"])("is not taken for commands of a second shell: %s", async (name) => {
    const { channel } = channelOf(["sh", "-c", `exec ${spawnSync(name, ["-c", "exit 0"]).status === 0 ? name : "sh"}`]);
    await expect(open(channel)).rejects.toMatchObject({
      code: "machine_unfit",
      message: expect.stringMatching(/start another shell.*return;; esac/) as string,
    });
  });

  it("shows no part of a secret in its last words, wherever these begin", async () => {
    const secret = "s3cret-of-thé-run";
    const redactor = new Redactor([secret]);
    for (const after of [284, 288, 293]) {
      const text = `${"x ".repeat(3_000)}${secret}${"z".repeat(after)}`;
      const { channel } = channelOf(["sh", "-c", 'printf %s "$SAID" >&2; exit 3'], { SAID: text });
      const error = (await open(channel).catch((e: unknown) => e)) as SvcError;
      expect(redactor.redactText(error.message)).toContain(`said: …***redacted***${"z".repeat(after)}`);
    }
  });

  it("answers quick questions while others wait, and explains its refusals", async () => {
    const { client } = await realAgent();
    const dir = join(folder, "quiet");
    let woke = false;
    const waiting = ask(client, "follow", { dir, offset: 0, max: 0, seen: 0, wait_ms: 2_000 }).then(
      () => (woke = true),
    );
    for (let i = 0; i < 50; i++) await ask(client, "status", { dir });
    expect(woke).toBe(false);
    await expect(ask(client, "nothing")).rejects.toMatchObject({ kind: "refused", message: "there is no nothing" });
    await expect(ask(client, "status", {})).rejects.toMatchObject({ kind: "failed" });
    await expect(ask(client, "ack", { dir, offset: 1 })).rejects.toMatchObject({ kind: "missing" });
    await waiting;
  });

  it("sends keepalives only before its answer", async () => {
    const dir = mkdtempSync(join(folder, "busy-"));
    mkdirSync(join(dir, "spool"));
    writeFileSync(join(dir, "spool", "000000000000"), Buffer.alloc(256 << 10, "x"));
    const hurried = source.toString().replace("ALIVE_SECONDS = 5", "ALIVE_SECONDS = 0.0002");
    const { channel } = channelOf(["sh", "-c", AGENT_COMMAND]);
    const frames = new Frames();
    channel.on("data", (data: Buffer) => frames.take(data));
    const client = await AgentClient.open(channel, { machine: "m1", source: Buffer.from(hurried), signal: never });
    const read = { dir, offset: 0, max: 256 << 10 };
    const wait = { dir, offset: 256 << 10, max: 1 << 20, seen: 256 << 10, wait_ms: 3 };
    const again = async (op: string, args: object, maxBytes: number) => {
      while (frames.alive <= 1_000) await ask(client, op, { ...args }, { maxBytes });
    };
    // Bodies in transfer delay signs of life and answers.
    await Promise.all([
      again("read_log", read, 1 << 20),
      again("follow", wait, 1 << 20),
      again("follow", wait, 1 << 20),
    ]);
    expect(frames.late).toEqual([]);
  });

  it("ends after a long time without requests, but not during one", async () => {
    const hurried = source.toString().replace("UNASKED_SECONDS = 900", "UNASKED_SECONDS = 0.3");
    const { channel, child } = channelOf(["sh", "-c", AGENT_COMMAND]);
    const over = new Promise((resolve) => child.once("exit", resolve));
    const text = Buffer.from(hurried.replace("ALIVE_SECONDS = 5", "ALIVE_SECONDS = 0.1"));
    const client = await AgentClient.open(channel, { machine: "m1", source: text, signal: never });
    await ask(client, "follow", { dir: join(folder, "quiet"), offset: 0, max: 0, seen: 0, wait_ms: 1_000 });
    expect(client.closed).toBe(false);
    expect(await over).toBe(0);
    await expect(ask(client, "status", { dir: folder })).rejects.toMatchObject({ code: "ssh_unreachable" });
  });

  it("makes and removes folders of machines only", async () => {
    const { client } = await realAgent();
    const mine = join(folder, ".svc-machine", "m1", "project");
    await ask(client, "mkdir", { path: mine });
    expect(existsSync(mine)).toBe(true);
    for (const path of [folder, `${folder}/.svc-machine/../x`, "/etc/x", `${folder}/.svc-machine/`, ".svc-machine/x"]) {
      await expect(ask(client, "remove_tree", { path })).rejects.toMatchObject({ kind: "refused" });
      await expect(ask(client, "mkdir", { path })).rejects.toMatchObject({ kind: "refused" });
    }
    await ask(client, "remove_tree", { path: join(folder, ".svc-machine", "m1") });
    expect(existsSync(mine)).toBe(false);
    await ask(client, "remove_tree", { path: join(folder, ".svc-machine", "m1") });
  });

  it("keeps a runner only under its own digest", async () => {
    const { client } = await realAgent();
    for (const digest of ["0".repeat(64), "../../../etc", 5, "A".repeat(64)])
      await expect(ask(client, "runner", { digest }, { body: Buffer.from("x") })).rejects.toMatchObject({
        kind: "refused",
      });
  });

  it("distinguishes an unreadable file from other failures", () => {
    const run = join(folder, "unreadable");
    mkdirSync(join(run, "checkpoints"), { recursive: true });
    writeFileSync(join(run, "spec.json"), JSON.stringify({ checkpoint_dir: join(run, "checkpoints") }));
    writeFileSync(join(run, "checkpoints", "a"), "text");
    const code = `
import errno, json, os, sys
sys.path.insert(0, sys.argv[1])
import svc_agent
head, body = svc_agent.op_list({"dir": sys.argv[2]})
path, size, mtime, inode = json.loads(body)
ask = {"dir": sys.argv[2], "path": path, "size": size, "mtime": mtime, "inode": inode, "offset": 0, "max": 9}
print(svc_agent.op_read_file(ask)[1])
for number in (errno.EIO, errno.EACCES, errno.EMFILE):
    def fail(*_):
        raise OSError(number, "no")
    os.pread = fail
    try:
        svc_agent.op_read_file(ask)
    except svc_agent.Refusal as e:
        print(e.kind)
    except OSError as e:
        print("other")
`;
    const argv = ["-B", "-c", code, join(agentPath, ".."), run];
    const { stdout, stderr } = spawnSync("python3", argv, { encoding: "utf8" });
    expect([stdout, stderr]).toEqual(["b'text'\nunreadable\nunreadable\nother\n", ""]);
  });

  it("keeps a run's secrets if its start got no answer: the launcher may still read them", () => {
    const slow = join(folder, ".svc-machine", ".runtime", "0".repeat(64));
    const run = join(folder, ".svc-machine", "slow", "run");
    mkdirSync(slow, { recursive: true });
    writeFileSync(join(slow, "svc_runner.py"), "import time\ntime.sleep(60)\n");
    const code = `
import json, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
import svc_agent
children, wait = [], subprocess.Popen.communicate
def impatient(child, timeout):
    children.append(child)
    return wait(child, timeout=0.1)
subprocess.Popen.communicate = impatient
run, base = sys.argv[2], os.path.dirname(sys.argv[2])
ask = {"dir": run, "runner": "0" * 64, "secrets": {"A": "b"}, "spec": {"nonce": "n", "checkpoint_dir": base + "/checkpoints"}}
try:
    svc_agent.op_start(ask)
except svc_agent.Refusal as e:
    print(e.kind, os.listdir(run))
children[0].kill()
`;
    const argv = ["-B", "-c", code, join(agentPath, ".."), run];
    const { stdout, stderr } = spawnSync("python3", argv, { env: { ...process.env, HOME: folder }, encoding: "utf8" });
    expect(stderr).toBe("");
    expect(stdout).toContain("runner [");
    expect(stdout).toContain("'env.json'");
  });

  it("gives a run the container's variables, but none that can rent machines", async (ctx) => {
    // A container's first process with an environment that an SSH session does not see.
    const wrap = [
      "unshare",
      "--pid",
      "--fork",
      "--mount-proc",
      "sh",
      "-c",
      "cat /proc/1/environ >/dev/null && exec true",
    ];
    if (spawnSync(wrap[0]!, wrap.slice(1)).status !== 0) return ctx.skip("no namespaces here");
    const first = join(folder, "first.sh");
    writeFileSync(
      first,
      `env -i PATH=/session/bin:/usr/bin:/bin HOME="$HOME" TERM=dumb ${realPython()} -I -S "$1" & wait\n`,
    );
    const look = join(folder, "look.py");
    writeFileSync(
      look,
      `import json\nNONCE=""\nsource=open(${JSON.stringify(agentPath)}).read()\nexec(source)\nprint(json.dumps([base_environment(), op_hello({'name': 'm1'})[0]['machine']]))\n`,
    );
    const out = spawnSync("unshare", ["--pid", "--fork", "--mount-proc", "sh", first, look], {
      encoding: "utf8",
      env: {
        PATH: "/opt/conda/bin:/usr/bin:/bin",
        HOME: folder,
        LD_LIBRARY_PATH: "/usr/local/cuda/lib64",
        CUDA_VERSION: "12.8",
        TERM: "other",
        RUNPOD_API_KEY: "rk-1",
        CONTAINER_API_KEY: "ck-1",
        COPY_OF_KEY: "ck-1",
        WANDB_API_KEY: "mine",
        SVC_MACHINE: "m1",
      },
    });
    const [env, name] = JSON.parse(out.stdout) as [Record<string, string>, string];
    expect(name).toBe("m1");
    expect(env).toMatchObject({
      PATH: "/opt/conda/bin:/usr/bin:/bin:/session/bin",
      LD_LIBRARY_PATH: "/usr/local/cuda/lib64",
      CUDA_VERSION: "12.8",
      TERM: "dumb",
      WANDB_API_KEY: "mine",
    });
    expect(Object.keys(env).filter((n) => /RUNPOD|CONTAINER|COPY|SVC_/.test(n))).toEqual([]);
  });
});

const realPython = (): string =>
  spawnSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).stdout.trim();

/** An agent whose messages the test sets. */
class Liar {
  readonly #toClient = new PassThrough();
  readonly #fromClient = new PassThrough();
  readonly channel: AgentChannel = Duplex.from({ readable: this.#toClient, writable: this.#fromClient });
  readonly heard: { id: number; op: string }[] = [];
  /** Called with each call of the client. */
  answer: (ask: { id: number; op: string }) => void = () => undefined;

  constructor() {
    let text = "";
    let skip = -1;
    this.#fromClient.on("data", (data: Buffer) => {
      text += data.toString("latin1");
      if (skip < 0) {
        const at = text.indexOf("\n");
        skip = at + 1 + Number(text.slice(0, at));
        const nonce = /NONCE = "([0-9a-f]+)"/.exec(text)?.[1];
        this.say(`SVC-AGENT ${nonce}\n`);
      }
      if (text.length < skip) return;
      text = text.slice(skip);
      skip = 0;
      for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n")) {
        const ask = JSON.parse(text.slice(0, at)) as { id: number; op: string };
        text = text.slice(at + 1);
        this.heard.push(ask);
        this.answer(ask);
      }
    });
  }

  say(text: string | Buffer): void {
    this.#toClient.write(text);
  }

  end(): void {
    this.#toClient.end();
  }
}

async function lied(
  answer: (liar: Liar, id: number) => void,
  more = {},
): Promise<{ client: AgentClient; asked: Promise<unknown> }> {
  const liar = new Liar();
  const client = await open(liar.channel);
  liar.answer = ({ id }) => answer(liar, id);
  const asked = client.call("read_log", {}, z.object({ n: z.int() }), {
    signal: never,
    timeoutMs: 400,
    maxBytes: 4,
    ...more,
  });
  return { client, asked };
}

describe("an agent that sends false answers", () => {
  const lies: [string, (id: number) => string][] = [
    ["what is no JSON", () => "{nonsense}\n"],
    ["an array", () => "[1]\n"],
    ["a body longer than asked for", (id) => `{"id":${id},"ok":{"n":1},"bytes":5}\nabcde`],
    ["a body of negative length", (id) => `{"id":${id},"ok":{"n":1},"bytes":-1}\n`],
    ["a body of endless length", (id) => `{"id":${id},"ok":{"n":1},"bytes":1e300}\n`],
    ["an answer to nobody", (id) => `{"id":${id + 7},"ok":{"n":1}}\n`],
    [
      "the same answer twice, the first of the wrong shape",
      (id) => `{"id":${id},"ok":{"n":"1"}}\n{"id":${id},"ok":{"n":1}}\n`,
    ],
    ["a refusal with a body", (id) => `{"id":${id},"error":{"kind":"x","why":"y"},"bytes":2}\nab`],
    ["a line without end", () => "x".repeat((1 << 20) + 1)],
    ["deep nesting", () => `${"[".repeat(500_000)}\n`],
    ["an id that is none", () => `{"id":"1","ok":{}}\n`],
  ];
  for (const [what, text] of lies) {
    it(`is found unfit: ${what}`, async () => {
      const { client, asked } = await lied((liar, id) => liar.say(text(id)));
      await expect(asked).rejects.toMatchObject({ code: "machine_unfit" });
      expect(client.closed).toBe(true);
      await expect(ask(client, "status")).rejects.toMatchObject({ code: "machine_unfit" });
    });
  }

  it("is not waited for: silence, an early end, half a body", async () => {
    const silent = await lied(() => undefined);
    const other = silent.client.call("status", {}, Any, { signal: never, timeoutMs: 60_000 });
    other.catch(() => undefined);
    await expect(silent.asked).rejects.toMatchObject({
      code: "ssh_unreachable",
      message: expect.stringContaining("did not answer `read_log`"),
    });
    await expect(other).rejects.toMatchObject({ code: "ssh_unreachable" });
    const ended = await lied((liar) => liar.end());
    await expect(ended.asked).rejects.toMatchObject({ code: "ssh_unreachable" });
    const half = await lied((liar, id) => liar.say(`{"id":${id},"ok":{"n":1},"bytes":4}\nab`));
    await expect(half.asked).rejects.toMatchObject({ code: "ssh_unreachable" });
  });

  it("gets more time while it reports work, and while bytes arrive", async () => {
    const slow = await lied((liar, id) => {
      let beats = 0;
      const timer = setInterval(() => {
        if (++beats < 8) return liar.say(`{"id":${id},"alive":true}\n`);
        clearInterval(timer);
        liar.say(`{"id":${id},"ok":{"n":1}}\n`);
      }, 150);
    });
    expect(await slow.asked).toMatchObject({ value: { n: 1 } });
    const trickle = await lied((liar, id) => {
      liar.say(`{"id":${id},"ok":{"n":1},"bytes":4}\n`);
      let sent = 0;
      const timer = setInterval(() => {
        liar.say("x");
        if (++sent === 4) clearInterval(timer);
      }, 200);
    });
    expect((await trickle.asked) as object).toMatchObject({ bytes: Buffer.from("xxxx") });
  });

  it("may claim to work on an answered request, but not on one that was never made", async () => {
    const { client, asked } = await lied((liar, id) => {
      liar.say(`{"id":${id},"ok":{"n":1}}\n{"id":${id},"alive":true}\n`);
    });
    expect(await asked).toMatchObject({ value: { n: 1 } });
    expect(await client.call("read_log", {}, Any, { signal: never })).toMatchObject({ value: { n: 1 } });
    const early = await lied((liar, id) => liar.say(`{"id":${id + 1},"alive":true}\n`));
    await expect(early.asked).rejects.toMatchObject({ code: "machine_unfit" });
  });

  it("may cut its answers anywhere", async () => {
    const { asked } = await lied((liar, id) => {
      for (const byte of Buffer.from(`{"id":${id},"ok":{"n":1},"bytes":4}\nab\ncd`.slice(0, -1)))
        liar.say(Buffer.of(byte));
    });
    expect((await asked) as object).toMatchObject({ bytes: Buffer.from("ab\nc") });
  });

  it("does not hold a caller that has left, and its late answer is harmless", async () => {
    const liar = new Liar();
    const client = await open(liar.channel);
    const gone = new AbortController();
    const asked = client.call("read_log", {}, Any, { signal: gone.signal, maxBytes: 10 });
    gone.abort(new Error("changed my mind"));
    await expect(asked).rejects.toThrow("changed my mind");
    liar.answer = ({ id }) => liar.say(`{"id":1,"ok":{},"bytes":3}\nold{"id":${id},"ok":{"new":true}}\n`);
    expect((await ask(client, "status")).value).toEqual({ new: true });
  });
});
