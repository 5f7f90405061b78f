// The connection to a machine, against a real sshd: which data passes, which machines are refused, and how soon silence
// is noticed.
// @module-tag needs/sshd

import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { endpointOf, type SshEndpoint } from "../../src/domain/endpoint.ts";
import type { SvcError } from "../../src/errors/index.ts";
import { SshConnection, type ConnectionOptions } from "../../src/ssh/connection.ts";
import { HostKeyPins, keyOfLine } from "../../src/ssh/host-keys.ts";
import { loadSshKey, type SshKey } from "../../src/ssh/keys.ts";
import { freePort, keygen, relay, Sshd, until } from "./sshd.ts";

const never = new AbortController().signal;
const home = mkdtempSync(join(tmpdir(), "svc-ssh-"));
const pins = new HostKeyPins(home);
const open: SshConnection[] = [];
let key: SshKey;
let sshd: Sshd;

beforeAll(async () => {
  key = await loadSshKey({ path: null, home });
  sshd = await Sshd.start({ authorizedKeys: [key.publicKeyLine] });
});
afterEach(() => {
  for (const connection of open.splice(0)) connection.close();
});
afterAll(async () => {
  await sshd.close();
  rmSync(home, { recursive: true, force: true });
});

let machines = 0;
function connect(options: Partial<ConnectionOptions> = {}): SshConnection {
  machines += 1;
  const connection = new SshConnection({
    machine: `machine-${machines}`,
    endpoints: () => [sshd.endpoint],
    key: () => Promise.resolve(key),
    pins,
    ...options,
  });
  open.push(connection);
  return connection;
}

async function failure(promise: Promise<unknown>): Promise<SvcError> {
  const thrown = await promise.then(
    () => null,
    (e: unknown) => e as SvcError,
  );
  expect(thrown, "it should have failed").not.toBeNull();
  return thrown as SvcError;
}

test("several commands run at once, even if sshd allows one on each connection", async () => {
  const own = await Sshd.start({ authorizedKeys: [key.publicKeyLine], config: ["MaxSessions 1"] });
  try {
    const connection = connect({ endpoints: () => [own.endpoint] });
    const first = await connection.open("cat", never);
    const others = await Promise.all(
      [1, 2, 3].map((i) => connection.exec(`cat; exit ${i}`, { signal: never, stdin: `<${i}>` })),
    );
    expect(others.map(({ code, stdout }) => [code, stdout.toString()])).toEqual([
      [1, "<1>"],
      [2, "<2>"],
      [3, "<3>"],
    ]);
    // The first connection still exists, and a close also ends the other commands.
    const second = await connection.open("sleep 60", never);
    connection.close();
    await expect(second.done).rejects.toMatchObject({ code: "ssh_unreachable" });
    await expect(first.done).rejects.toMatchObject({ code: "ssh_unreachable" });
  } finally {
    await own.close();
  }
});

describe("a command", () => {
  test("has its stdin, both outputs, and its exit code; the connection is made once for all", async () => {
    const connection = connect();
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        connection.exec(`cat; echo err >&2; exit ${i}`, { signal: never, stdin: `<${i}>` }),
      ),
    );
    for (const [i, { code, signal, stdout, stderr }] of all.entries()) {
      expect([code, signal, stdout.toString()]).toEqual([i, null, `<${i}>`]);
      // A login shell may print text of its own.
      expect(stderr.toString()).toMatch(/(^|\n)err\n$/);
    }
    expect(sshd.log.match(/Accepted publickey/g)?.length).toBe(1);
    expect((await connection.exec("kill -9 $$", { signal: never })).signal).toBe("SIGKILL");
  });

  test("carries 10 MB in and out, unchanged, also from a stream", async () => {
    const connection = connect();
    const bytes = randomBytes(10_000_000);
    expect((await connection.exec("cat", { signal: never, stdin: bytes })).stdout.equals(bytes)).toBe(true);
    async function* parts(): AsyncGenerator<Buffer> {
      for (let at = 0; at < bytes.length; at += 99_999) yield bytes.subarray(at, at + 99_999);
    }
    expect((await connection.exec("cat", { signal: never, stdin: parts() })).stdout.equals(bytes)).toBe(true);
  });

  test("succeeds if it ends before it has read all input", async () => {
    async function* endless(): AsyncGenerator<Buffer> {
      for (;;) yield Buffer.alloc(65_536);
    }
    expect((await connect().exec("head -c 10 >/dev/null; exit 4", { signal: never, stdin: endless() })).code).toBe(4);
  });

  test("fails with the error of its input", async () => {
    // oxlint-disable-next-line require-yield
    async function* broken(): AsyncGenerator<Buffer> {
      throw new RangeError("the disk here");
    }
    expect((await failure(connect().exec("cat", { signal: never, stdin: broken() }))).message).toBe("the disk here");
  });

  test("is ended if its output exceeds the limit", async () => {
    const connection = connect();
    const e = await failure(connection.exec("yes", { signal: never, maxBytes: 100_000 }));
    expect(e.code).toBe("runner_failed");
    expect(
      (await connection.exec("head -c 100000 /dev/zero", { signal: never, maxBytes: 100_000 })).stdout.length,
    ).toBe(100_000);
    const { stderr } = await connection.exec("head -c 300000 /dev/zero | tr '\\0' a >&2; echo end >&2", {
      signal: never,
    });
    expect(stderr.length).toBeLessThanOrEqual(64 * 1024);
    expect(stderr.toString().endsWith("aend\n")).toBe(true);
  });

  test("is aborted at its deadline and at its signal, and the connection continues to serve", async () => {
    const connection = connect();
    await connection.ready(never);
    const late = await failure(connection.exec("sleep 100", { signal: never, timeoutMs: 300 }));
    expect([late.code, late.message]).toEqual(["ssh_unreachable", expect.stringContaining("no answer within 1 s")]);
    const abort = new AbortController();
    const reason = new RangeError("enough");
    const running = connection.open("echo up; exec sleep 1000", abort.signal);
    const channel = await running;
    await once(channel, "data");
    abort.abort(reason);
    await expect(channel.done).rejects.toBe(reason);
    expect((await connection.exec("echo on", { signal: never })).stdout.toString()).toBe("on\n");
    await expect(connection.exec("true", { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });

  test("waits for its turn while eight run, and leaves the queue on an abort", async () => {
    const connection = connect();
    const long = await Promise.all(Array.from({ length: 8 }, () => connection.open("cat", never)));
    const abort = new AbortController();
    const given = connection.exec("echo given", { signal: abort.signal });
    const ninth = connection.exec("echo ninth", { signal: never });
    abort.abort(new RangeError("enough"));
    await expect(given).rejects.toThrow("enough");
    long[0]?.resume();
    long[0]?.stderr.resume();
    long[0]?.end();
    expect((await ninth).stdout.toString()).toBe("ninth\n");
  });
});

describe("the host key", () => {
  test("is pinned at the machine's first accepted login, by the machine's name", async () => {
    const connection = connect({ machine: "named" });
    expect(pins.check("named", keyOfLine(sshd.hostKeyLine) as Buffer)).toBe("new");
    await connection.ready(never);
    expect(pins.check("named", keyOfLine(sshd.hostKeyLine) as Buffer)).toBe("same");
  });

  test("ends everything before a byte is sent if it changed; other machines at that address are not affected", async () => {
    const own = await Sshd.start({ authorizedKeys: [key.publicKeyLine] });
    try {
      const connection = connect({ machine: "changing", endpoints: () => [own.endpoint] });
      await connection.exec("true", { signal: never });
      connection.close();
      await own.stop();
      own.changeHostKey();
      await own.start();
      const e = await failure(connection.exec("echo secret", { signal: never, stdin: "secret" }));
      expect(e.code).toBe("host_key_changed");
      await until(() => /Connection (closed|reset)/.test(own.log), "sshd to tell how it ended");
      expect(own.log).not.toMatch(/publickey|Starting session|Accepted/);
      await connect({ endpoints: () => [own.endpoint] }).ready(never);
    } finally {
      await own.close();
    }
  });

  test("is checked against the published one, among several, and no other counts", async () => {
    const own = await Sshd.start({ authorizedKeys: [key.publicKeyLine], config: [] });
    try {
      pins.pin("published", keyOfLine(own.hostKeyLine) as Buffer);
      await connect({ machine: "published", endpoints: () => [own.endpoint] }).ready(never);
      pins.pin("stranger", keyOfLine(sshd.hostKeyLine) as Buffer);
      const e = await failure(
        connect({ machine: "stranger", endpoints: () => [own.endpoint, sshd.endpoint] }).ready(never),
      );
      expect(e.code).toBe("host_key_changed");
      // A second key of a better type changes nothing for a client that knows the first.
      await own.stop();
      own.changeHostKey("ecdsa");
      keygen(join(own.folder, "second"));
      const two = await Sshd.start({
        authorizedKeys: [key.publicKeyLine],
        config: [`HostKey ${join(own.folder, "second")}`, `HostKey ${join(own.folder, "host_key")}`],
      });
      pins.pin("two-keys", keyOfLine(own.hostKeyLine) as Buffer);
      await connect({ machine: "two-keys", endpoints: () => [two.endpoint] }).ready(never);
      await two.close();
    } finally {
      await own.close();
    }
  });

  test("is not pinned if the machine refuses our key: it may make itself another while it boots", async () => {
    const own = await Sshd.start();
    try {
      const connection = connect({ machine: "booting", endpoints: () => [own.endpoint] });
      const e = await failure(connection.ready(never));
      expect([e.code, e.message]).toEqual(["ssh_refused", expect.stringContaining(key.path)]);
      await own.stop();
      own.changeHostKey();
      own.authorize(key.publicKeyLine);
      await own.start();
      await new Promise((resolve) => setTimeout(resolve, 60));
      await connection.ready(never);
    } finally {
      await own.close();
    }
  });
});

describe("a machine that cannot be reached", () => {
  const why = async (endpoints: SshEndpoint[]): Promise<string> => {
    const e = await failure(connect({ endpoints: () => endpoints }).exec("true", { signal: never }));
    expect(e.code).toBe("ssh_unreachable");
    return (e.data as { why: string }).why;
  };

  test("is reported in plain words: refused, unknown, silent, hung up, not SSH, no address", async () => {
    const at = { ...sshd.endpoint, port: await freePort() };
    expect(await why([at])).toBe(`connection refused by 127.0.0.1 port ${at.port}`);
    expect(await why([{ ...at, host: "nowhere.invalid" }])).toMatch(
      /^the name nowhere.invalid cannot be resolved|no answer/,
    );
    expect(await why([])).toBe("its address is not known yet");
    const hangsUp = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
    const chats = createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")).listen(0, "127.0.0.1");
    await Promise.all([once(hangsUp, "listening"), once(chats, "listening")]);
    const portOf = (server: typeof chats): number => (server.address() as { port: number }).port;
    expect(await why([{ ...at, port: portOf(hangsUp) }])).toMatch(/hangs up before SSH begins|cut the connection/);
    expect(await why([{ ...at, port: portOf(chats) }])).toMatch(/127.0.0.1 port \d+/);
    hangsUp.close();
    chats.close();
  });

  test("may stay silent for a limited time", async () => {
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as { port: number };
    const begin = performance.now();
    const patience = { readyMs: 1_000, keepaliveMs: 5_000 };
    const e = await failure(connect({ endpoints: () => [{ ...sshd.endpoint, port }], patience }).ready(never));
    expect([e.code, e.message]).toEqual([
      "ssh_unreachable",
      expect.stringContaining(`no answer from 127.0.0.1 port ${port} within 1 s`),
    ]);
    expect(performance.now() - begin).toBeGreaterThan(900);
    silent.close();
  });

  test("is tried at its next endpoint, which is tried first from then on", async () => {
    const refusing = { ...sshd.endpoint, port: await freePort() };
    const connection = connect({ endpoints: () => [refusing, sshd.endpoint] });
    expect(connection.endpoint()).toEqual(refusing);
    await connection.ready(never);
    expect(connection.endpoint()).toEqual(sshd.endpoint);
    connection.close();
    expect(connection.endpoint()).toEqual(sshd.endpoint);
  });

  test("remembers a failure only for a moment", async () => {
    let asked = 0;
    const refusing = { ...sshd.endpoint, port: await freePort() };
    let endpoint = refusing;
    const connection = connect({
      endpoints: () => {
        asked += 1;
        return [endpoint];
      },
    });
    await failure(connection.ready(never));
    for (let i = 0; i < 3; i++) await failure(connection.ready(never));
    expect(asked).toBeLessThanOrEqual(2);
    endpoint = sshd.endpoint;
    await new Promise((resolve) => setTimeout(resolve, 60));
    await connection.ready(never);
  });

  test("never gets a host, port or user with further text", () => {
    for (const host of ["-oProxyCommand=id", "a b", "a;id", "$(id)", "a/../b", "u@h", "%h", "", "::1%lo", "a\nb"]) {
      expect(endpointOf(host, 22, "root"), host).toBeNull();
    }
    expect(endpointOf("10.0.0.1", "22; id", "root")).toBeNull();
    expect(endpointOf("10.0.0.1", 22, "-l")).toBeNull();
  });
});

describe("an established connection", () => {
  test("fails its commands when it is cut, reports that, and is made again for the next call", async () => {
    const via = await relay({ host: sshd.address, port: sshd.port });
    const connection = connect({ endpoints: () => [{ ...sshd.endpoint, port: via.port }] });
    const told: string[] = [];
    connection.on((why) => told.push(why.code));
    const channel = await connection.open("echo up; exec sleep 1000", never);
    await once(channel, "data");
    const waiting = failure(connection.exec("exec sleep 1000", { signal: never }));
    await new Promise((resolve) => setTimeout(resolve, 200));
    via.cut();
    expect((await waiting).code).toBe("ssh_unreachable");
    expect((await failure(channel.done)).code).toBe("ssh_unreachable");
    expect(told).toEqual(["ssh_unreachable"]);
    expect((await connection.exec("echo again", { signal: never })).stdout.toString()).toBe("again\n");
    via.close();
  });

  test("ends when its session there is killed", async () => {
    const own = await Sshd.start({ authorizedKeys: [key.publicKeyLine] });
    try {
      const connection = connect({ endpoints: () => [own.endpoint] });
      const channel = await connection.open("echo up; exec sleep 1000", never);
      await once(channel, "data");
      own.cut();
      expect((await failure(channel.done)).code).toBe("ssh_unreachable");
    } finally {
      await own.close();
    }
  });

  test("to a frozen machine ends a call at its deadline, and itself by its keepalive", async () => {
    const own = await Sshd.start({ authorizedKeys: [key.publicKeyLine] });
    try {
      const patience = { readyMs: 10_000, keepaliveMs: 1_000 };
      const connection = connect({ endpoints: () => [own.endpoint], patience });
      const channel = await connection.open("echo up; exec sleep 1000", never);
      await once(channel, "data");
      own.pause();
      const e = await failure(connection.exec("true", { signal: never, timeoutMs: 500 }));
      expect(e.code).toBe("ssh_unreachable");
      expect((await failure(channel.done)).message).toContain("did not answer for 3 s");
      own.resume();
      expect((await connection.exec("echo awake", { signal: never })).stdout.toString()).toBe("awake\n");
    } finally {
      await own.close();
    }
  });

  test("is closed here: running commands fail, and no process of it is left", async () => {
    const connection = connect();
    const channel = await connection.open("exec sleep 1000", never);
    connection.close();
    expect((await failure(channel.done)).message).toContain("was closed here");
    const dialling = failure(connection.ready(never));
    connection.close();
    expect((await dialling).code).toBe("ssh_unreachable");
  });
});

describe("a proxy command", () => {
  const python = `import os,socket,sys,threading
s=socket.create_connection((sys.argv[1],int(sys.argv[2])))
def up():
    while True:
        b=os.read(0,65536)
        if not b: break
        s.sendall(b)
    s.shutdown(1)
threading.Thread(target=up,daemon=True).start()
while True:
    b=s.recv(65536)
    if not b: break
    os.write(1,b)`;

  test("carries the connection, with host and port filled in, and ends with it", async () => {
    const proxyCommand = `exec python3 -c '${python}' %h %p`;
    const connection = connect({ endpoints: () => [{ ...sshd.endpoint, proxyCommand }] });
    const bytes = randomBytes(3_000_000);
    expect((await connection.exec("cat", { signal: never, stdin: bytes })).stdout.equals(bytes)).toBe(true);
    const running = (): number =>
      readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && commandOf(pid).includes(`${sshd.address} ${sshd.port}`))
        .length;
    expect(running()).toBe(1);
    connection.close();
    await until(() => running() === 0, "the proxy command to end");
  });

  test("reports why it failed", async () => {
    const fails = { ...sshd.endpoint, proxyCommand: "echo the tunnel is closed >&2; exit 3" };
    const e = await failure(connect({ endpoints: () => [fails] }).ready(never));
    expect(e.code).toBe("ssh_unreachable");
    expect(e.message).toContain("the tunnel is closed");
  });

  test("says nothing about the machine if this computer cannot start it", async () => {
    vi.stubEnv("PATH", "/nonexistent");
    onTestFinished(() => void vi.unstubAllEnvs());
    const e = await failure(connect({ endpoints: () => [{ ...sshd.endpoint, proxyCommand: "true" }] }).ready(never));
    expect(e.code).toBe("ssh_unreachable");
    expect(e.message).toContain("the proxy command could not be started");
    expect((e.data as { closed?: boolean }).closed).not.toBe(true);
  });
});

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}
