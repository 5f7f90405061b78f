import { createServer, type AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { parseEndpoint } from "../../src/providers/notebook/endpoint.ts";
import { greets } from "../../src/providers/notebook/greets.ts";
import { NotebookProvider } from "../../src/providers/notebook/provider.ts";
import type { MachineAccess } from "../../src/providers/host.ts";
import type { Order } from "../../src/providers/provider.ts";
import { RunSpec } from "../../src/schemas/spec.ts";

const HOST_KEY = `ssh-ed25519 ${"A".repeat(68)}`;
const OTHER_KEY = `ssh-ed25519 ${"B".repeat(68)}`;
const spec = (more: object = {}) =>
  RunSpec.parse({ entrypoint: "train.py", provider: "notebook", gpus: "T4", ...more });
const order: Order = { name: "svc-abc-job1-n0-1", jobId: "job1", node: 0, spec: spec() };
const offer = { id: "x", priceMicro: 0 };

function provider(settings: Record<string, string>) {
  const asked: string[] = [];
  const made = new NotebookProvider({
    credential: () => ({ secret: "", settings }),
    baseUrl: "",
    publicKey: () => Promise.resolve(HOST_KEY),
    access: (handle) => {
      asked.push(handle.name);
      return {} as MachineAccess;
    },
    now: Date.now,
    pause: () => Promise.resolve(),
  });
  return { it: made, asked, settings };
}

describe("the values that a person pastes", () => {
  const at = (host: string, port: number, user = "root") => ({ host, port, user });

  it.each<[string, ReturnType<typeof parseEndpoint>]>([
    ["tcp://4.tcp.example:17042", at("4.tcp.example", 17042)],
    [" 4.tcp.example:17042\n", at("4.tcp.example", 17042)],
    ["4.tcp.example 17042", at("4.tcp.example", 17042)],
    ["me@4.tcp.example:17042", at("4.tcp.example", 17042, "me")],
    ["ssh://me@4.tcp.example:17042/", at("4.tcp.example", 17042, "me")],
    ["[2001:db8::1]:22", at("2001:db8::1", 22)],
    ["ssh root@h.example -p 17042", at("h.example", 17042)],
    ["ssh -p17042 -l me h.example", at("h.example", 17042, "me")],
    ["ssh -4 -o StrictHostKeyChecking=no -i ~/.ssh/id -p 17042 me@h.example", at("h.example", 17042, "me")],
    ["ssh h.example", at("h.example", 22)],
    ["Forwarding                    tcp://4.tcp.eu.ngrok.io:17042 -> localhost:22", at("4.tcp.eu.ngrok.io", 17042)],
    [
      't=2026-11-01T10:00:00Z lvl=info msg="started tunnel" name=command_line addr=//localhost:22 url=tcp://4.tcp.ngrok.io:17042',
      at("4.tcp.ngrok.io", 17042),
    ],
    ["2026-11-01T10:00:00Z  INFO bore_cli::client: listening at bore.pub:40123", at("bore.pub", 40_123)],
    ["You are not authenticated.\ntcp://xyz.a.free.pinggy.link:40527\n", at("xyz.a.free.pinggy.link", 40_527)],
    ["listening at bore.pub:1\nlistening at bore.pub:2", at("bore.pub", 2)],
    [
      "ssh -J me@jump.example:2222 root@h.example -p 17042",
      { ...at("h.example", 17_042), proxyCommand: "ssh -W [%h]:%p -p 2222 me@jump.example" },
    ],
    ["Forwarding TCP connections from serveo.net:40123", at("serveo.net", 40_123)],
    ["\u001b[32m INFO\u001b[0m listening at bore.pub:40123\u001b[0m", at("bore.pub", 40_123)],
    ["$ ssh root@h.example -p 17042", at("h.example", 17_042)],
    ["ssh -oPort=17042 -o User=me h.example", at("h.example", 17_042, "me")],
    ["ssh -o 'Port 17042' h.example", at("h.example", 17_042)],
    ["ssh root@[2001:db8::1] -p 17042", at("2001:db8::1", 17_042)],
    [
      'ssh -o "ProxyJump=me@jump.example:2222" h.example',
      { ...at("h.example", 22), proxyCommand: "ssh -W [%h]:%p -p 2222 me@jump.example" },
    ],
    ["ssh -J jump h", { ...at("h", 22), proxyCommand: "ssh -W [%h]:%p -p 22 jump" }],
    ['{"host":"h.example","port":"17042"}', at("h.example", 17042)],
    [
      `SVC-ENDPOINT {"host":"h.example","port":1,"user":"me","hostKey":"${HOST_KEY} c"}`,
      { ...at("h.example", 1, "me"), hostKey: HOST_KEY },
    ],
    ['Terms\nSVC-ENDPOINT {"host":"old","port":1}\nSVC-ENDPOINT {"host":"new","port":2}\nConnected.', at("new", 2)],
  ])("%s is understood", (text, endpoint) => {
    expect(parseEndpoint(text)).toEqual(endpoint);
  });

  it.each([
    "",
    "h.example",
    "h.example:0",
    "h.example:65536",
    "h.example:22:33",
    "-oProxyCommand=reboot:22",
    "ssh -oProxyCommand=reboot",
    "ssh -p 22 -- -oProxyCommand=x",
    "ssh -oProxyCommand=reboot root@h",
    "ssh -o 'ProxyCommand=cloudflared access ssh --hostname %h' root@h",
    "ssh -o HostName=other root@h",
    "ssh -o 'Port 1' -o Port=2x root@h",
    "ssh -J -oProxyCommand=x root@h",
    "ssh -J $(reboot) root@h",
    "ssh -J a;reboot root@h",
    "ssh -J a,b root@h",
    "ssh -J a:0 root@h",
    "Forwarding tcp://$(reboot):22 -> localhost:22",
    "listening at -oProxyCommand=x:22",
    "ssh a b",
    "ssh",
    "http://h.example:22",
    "$(reboot):22",
    "h.example;reboot:22",
    "-me@h.example:22",
    "SVC-ENDPOINT {",
    "SVC-ENDPOINT [1]",
    '{"host":"h","port":1,"hostKey":"AAAA"}',
    '{"host":"h","port":1,"user":"-oX"}',
    '{"host":["h"],"port":1}',
    "null",
  ])("%s is not", (text) => {
    expect(parseEndpoint(text)).toBeNull();
  });
});

describe("the provider notebook", () => {
  it("offers the configured runtime, at price 0", async () => {
    expect(await provider({ host: "h.example", port: "17042" }).it.listOffers()).toEqual([
      { id: "at-h.example-17042", priceMicro: 0 },
    ]);
  });

  it.each<[Record<string, string>, string]>([
    [{}, "the address of the runtime is unknown"],
    [{ host: "h.example" }, "the port of the tunnel is not set"],
    [{ host: "-oProxyCommand=x", port: "22" }, "host, port and user are not such as"],
    [{ host: "h.example", port: "22", ssh_user: "-l" }, "host, port and user are not such as"],
    [{ host: "h.example", port: "99999" }, "host, port and user are not such as"],
    [{ endpoint: "nonsense" }, "host, port and user are not such as"],
    [{ host: "h.example", port: "22", host_key: "AAAA" }, "host_key must look like"],
  ])("with %j orders nothing and says what to do", async (settings, words) => {
    const { it: notebook } = provider(settings);
    for (const call of [() => notebook.listOffers(), () => notebook.create(offer, order)]) {
      const error = await call().then(
        () => null,
        (e: unknown) => e,
      );
      expect(error).toBeInstanceOf(SvcError);
      expect(error).toMatchObject({ code: "credential_missing", message: expect.stringContaining(words) as string });
      expect((error as SvcError).message).toContain("Run the bootstrap cell");
    }
  });

  it("adopts it under the order's name", async () => {
    const { it: notebook } = provider({ host: "tcp://h.example:17042", host_key: HOST_KEY });
    expect(await notebook.create(offer, order)).toEqual({
      v: 1,
      provider: "notebook",
      id: "at-h.example-17042",
      name: order.name,
      address: "h.example",
      priceMicro: 0,
      ssh: [{ host: "h.example", port: 17042, user: "root", metered: true }],
      extra: { host_key: HOST_KEY },
    });
  });

  it("uses a command of the owner's settings, which needs neither host nor port", async () => {
    const { it: notebook } = provider({ proxy_command: "/opt/way-in --stdio", ssh_user: "me" });
    const { ssh } = await notebook.create(offer, order);
    expect(ssh).toEqual([
      { host: "notebook", port: 22, user: "me", proxyCommand: "/opt/way-in --stdio", metered: true },
    ]);
  });

  it("follows a restarted tunnel, but not to another runtime", async () => {
    const { it: notebook, settings } = provider({ host: "a.example", port: "1", host_key: HOST_KEY });
    const handle = await notebook.create(offer, order);
    const now = async () => {
      const status = await notebook.inspect(handle);
      return status.phase === "ready" ? status.ssh?.[0]?.host : status.phase;
    };
    settings["host"] = "b.example";
    expect(await now()).toBe("b.example");
    settings["host_key"] = OTHER_KEY;
    expect(await now()).toBe("a.example");
    delete settings["host_key"];
    expect(await now()).toBe("b.example");
    delete settings["host"];
    expect(await now()).toBe("a.example");
  });

  it("releases without any request, repeatedly, and then calls it gone; so does the next process", async () => {
    const { it: notebook, asked } = provider({ host: "a.example", port: "1" });
    const handle = await notebook.create(offer, order);
    expect(await notebook.inspect(handle)).toMatchObject({ phase: "ready", priceMicro: 0, address: "a.example" });
    for (const each of [notebook, provider({}).it]) {
      await each.terminate(handle);
      await each.terminate(handle);
      expect(await each.inspect(handle)).toMatchObject({ phase: "gone" });
      expect(await each.listOwned()).toEqual([]);
    }
    const second = await notebook.create(offer, { ...order, name: "svc-abc-job2-n0-1" });
    expect(await notebook.inspect(second)).toMatchObject({ phase: "ready" });
    expect(asked).toEqual([]);
    notebook.access(handle);
    expect(asked).toEqual([handle.name]);
  });

  it("connects nowhere, however often it is asked: each connection counts against the limits of a tunnel", async () => {
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.on("error", () => undefined).end("SSH-2.0-x\r\n");
    });
    await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
    try {
      const { port } = server.address() as AddressInfo;
      const { it: notebook } = provider({ host: "127.0.0.1", port: String(port) });
      await notebook.listOffers();
      const handle = await notebook.create(offer, order);
      for (let i = 0; i < 3; i++) expect(await notebook.inspect(handle)).toMatchObject({ phase: "ready" });
      await notebook.listOwned();
      await notebook.terminate(handle);
      await notebook.inspect(handle);
      // Its own connection comes after all that were begun before.
      await greets({ host: "127.0.0.1", port });
      expect(connections).toBe(1);
    } finally {
      await new Promise((closed) => server.close(closed));
    }
  });

  it("has one machine", () => {
    const { it: notebook } = provider({ host: "a", port: "1" });
    expect(notebook.selfEnd()).toBeNull();
    expect(notebook.info.capabilities).toMatchObject({ owns_machine: false, nodes_max: 1, list_by_tag: false });
  });
});
