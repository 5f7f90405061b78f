import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { bootstrapCell, bootstrapNotebook, bootstrapOf } from "../../src/providers/notebook/bootstrap.ts";
import { parseEndpoint } from "../../src/providers/notebook/endpoint.ts";
import { serve } from "../api/double.ts";
import { ask } from "../api/wire.ts";
import { Runtime } from "./notebook-runtime.ts";

const KEY = `ssh-ed25519 ${"A".repeat(68)}`;
const TOKEN = "2abcDEF_0123456789-token";

describe("the text of the cell", () => {
  it("holds the key once, without its comment, after the terms", () => {
    const cell = bootstrapCell(`${KEY} me"; import os #\n`);
    expect(cell.split(KEY)).toHaveLength(2);
    expect(cell).toContain(`PUBLIC_KEY = "${KEY} svc"\n`);
    expect(cell).not.toContain("import os #");
    expect(cell).toMatch(/# Terms: [^]*PUBLIC_KEY = /);
    expect(cell).not.toContain("@PUBLIC_KEY@");
  });

  it.each(["", "no key", `${KEY}\nssh-rsa AAAA`, `command="x" ${KEY}`, "ssh-ed25519 $(reboot)"])(
    "is not made for %j, which is no public key",
    (line) => {
      expect(() => bootstrapCell(line)).toThrowError(expect.objectContaining({ code: "ssh_key_unusable" }) as Error);
    },
  );

  it("makes a whole notebook of format 4.0, terms first", () => {
    const notebook = bootstrapNotebook(KEY) as {
      nbformat: number;
      nbformat_minor: number;
      cells: { cell_type: string; source: string[]; outputs?: unknown[]; execution_count?: null }[];
    };
    expect([notebook.nbformat, notebook.nbformat_minor]).toEqual([4, 0]);
    const [words, code] = notebook.cells;
    expect(words).toMatchObject({ cell_type: "markdown" });
    expect(words?.source.join("")).toContain("Read the terms first");
    expect(code).toMatchObject({ cell_type: "code", execution_count: null, outputs: [] });
    expect(code?.source.join("")).toBe(bootstrapCell(KEY).trimEnd());
    expect(code?.source.slice(0, -1).every((line) => /^[^\n]*\n$/.test(line))).toBe(true);
    expect(code?.source.at(-1)).not.toMatch(/\n/);
  });
});

describe("GET /v1/notebook/bootstrap", () => {
  const path = "/v1/notebook/bootstrap";
  const open = async () => {
    const { server, plane } = await serve();
    Object.assign(plane, { notebookBootstrap: async () => bootstrapOf(KEY) });
    return server.port;
  };

  it("answers with the cell", async () => {
    for (const accept of ["application/json", "*/*", "application/x-ipynb+json;q=0, */*"]) {
      const reply = await ask({ port: await open(), path, headers: { accept } });
      expect(reply.status).toBe(200);
      expect(reply.headers["content-type"]).toMatch(/^application\/json/);
      expect(reply.json).toEqual({ cell: bootstrapCell(KEY) });
    }
  });

  it("answers with a notebook to any client that accepts one by name", async () => {
    const headers = { accept: "text/html, Application/x-ipynb+JSON;q=0.9" };
    const reply = await ask({ port: await open(), path, headers });
    expect(reply.headers["content-type"]).toMatch(/^application\/x-ipynb\+json\b/);
    expect(reply.headers["content-disposition"]).toContain("svc-connect.ipynb");
    expect(JSON.parse(reply.text)).toEqual(bootstrapNotebook(KEY));
  });

  it("says that no key exists", async () => {
    const { server } = await serve();
    expect((await ask({ port: server.port, path })).json).toMatchObject({ code: "provider_unavailable" });
  });
});

describe("the cell, run", { tags: "needs/sshd" }, () => {
  let runtime: Runtime;
  beforeEach(async () => (runtime = await new Runtime().open()));
  afterEach(() => runtime.close());
  const connected = async (...of: Parameters<Runtime["connect"]>) => {
    const said = await runtime.connect(...of);
    if (!said.endpoint) throw new Error(`it is not connected:\n${said.out}`);
    return { ...said, endpoint: said.endpoint };
  };

  it("lets svc in with its printed endpoint, and gives sessions the notebook's libraries but none of its secrets", async () => {
    runtime.program("nvidia-smi", '[ "$LD_LIBRARY_PATH" = /usr/lib64-nvidia ] && echo "GPU 0: T4 (UUID: x)"');
    const { out, endpoint } = await connected("bore", {
      LD_LIBRARY_PATH: "/usr/lib64-nvidia",
      NVIDIA_REQUIRE_CUDA: "cuda>=12 brand=tesla",
      NVIDIA_API_KEY: "secret-of-the-owner",
      COLAB_GPU: "1",
    });
    expect(out).toMatch(/^Before you go on: [^]*read the terms[^]*GPU: [^]*SVC-ENDPOINT/);
    expect(out).toContain("GPU: GPU 0: T4");
    expect(parseEndpoint(out)).toEqual(endpoint);
    const inside = await runtime.ssh(
      endpoint,
      'nvidia-smi -L; echo "$NVIDIA_REQUIRE_CUDA|$COLAB_GPU|$NVIDIA_API_KEY|"',
    );
    expect(inside).toEqual({ rc: 0, out: "GPU 0: T4 (UUID: x)\ncuda>=12 brand=tesla|1||\n" });
    if (process.getuid?.() === 0) {
      const profile = readFileSync(join(runtime.dir, "root/etc/profile.d/svc.sh"), "utf8");
      expect(profile).toContain("export LD_LIBRARY_PATH=/usr/lib64-nvidia\n");
      expect(profile).toContain("export NVIDIA_REQUIRE_CUDA='cuda>=12 brand=tesla'\n");
      expect(profile).not.toContain("secret-of-the-owner");
    }
  });

  it("admits no other user, and offers no password", async () => {
    const { endpoint } = await connected("bore");
    const other = new Runtime();
    try {
      const stranger = await other.ssh(endpoint, "true");
      expect(stranger.rc).toBe(255);
      expect(stranger.out).toContain("Permission denied (publickey)");
    } finally {
      await other.close();
    }
    const foreignKey = { ...endpoint, hostKey: endpoint.hostKey.replace(/.{4}$/, "AAAA") };
    expect((await runtime.ssh(foreignKey, "true")).rc).toBe(255);
    expect(statSync(join(runtime.dir, "home/.ssh")).mode & 0o777).toBe(0o700);
    expect(statSync(join(runtime.dir, "home/.ssh/authorized_keys")).mode & 0o777).toBe(0o600);
    expect(runtime.file("sshd_config")).toContain("ListenAddress 127.0.0.1\n");
  });

  it("run again keeps the daemon and its host key, and replaces only its own tunnel", async () => {
    const first = await connected("bore");
    const [daemon, tunnel] = [runtime.file("sshd.pid"), runtime.tunnelPid()];
    const second = await connected("bore");
    expect(second.endpoint).toEqual(first.endpoint);
    expect(second.out).toContain("it is kept");
    expect(runtime.file("sshd.pid")).toBe(daemon);
    expect(runtime.tunnelPid()).not.toBe(tunnel);
    expect(existsSync(`/proc/${tunnel}`)).toBe(false);
    expect(existsSync(`/proc/${runtime.tunnelPid()}`)).toBe(true);
    const keys = readFileSync(join(runtime.dir, "home/.ssh/authorized_keys"), "utf8");
    expect(keys.trim().split("\n")).toHaveLength(1);
    expect((await runtime.ssh(second.endpoint, "echo in")).out).toBe("in\n");
  });

  it("leaves alone a process that only reused the number of an old tunnel", async () => {
    await connected("bore");
    const pid = runtime.tunnelPid();
    await runtime.python(
      `import json; p = ${JSON.stringify(join(runtime.base, "tunnel.json"))}
state = json.load(open(p)); state["started"] = "1"; json.dump(state, open(p, "w"))
cell["stop_tunnel"](${JSON.stringify(runtime.base)})`,
    );
    expect(existsSync(`/proc/${pid}`)).toBe(true);
    process.kill(pid ?? 0);
  });

  it("opens an ngrok tunnel with a token that is stored nowhere, and waits until its address is known", async () => {
    runtime.program(
      "ngrok",
      `import http.server, json, os, sys
if sys.argv[1] == "version": print("ngrok version 3.9.0"); sys.exit()
assert sys.argv[1:3] == ["tcp", os.environ["SSHD_PORT"]] and os.environ["NGROK_AUTHTOKEN"] == "${TOKEN}"
asked = []
class Web(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        asked.append(self.path)
        if len(asked) == 1: self.send_error(502); return
        other = {"public_url": "tcp://other.example:1", "config": {"addr": "localhost:9"}}
        ours = {"public_url": "tcp://127.0.0.1:" + sys.argv[2], "proto": "tcp", "config": {"addr": "localhost:" + sys.argv[2]}}
        body = json.dumps({"tunnels": [] if len(asked) == 2 else [other, ours]}).encode()
        self.send_response(200); self.end_headers(); self.wfile.write(body)
server = http.server.HTTPServer(("127.0.0.1", 0), Web)
print(json.dumps({"msg": "starting web service", "addr": "127.0.0.1:%d" % server.server_port}), flush=True)
server.serve_forever()`,
      "/usr/bin/env python3",
    );
    const { out, endpoint } = await connected("ngrok", { NGROK_AUTHTOKEN: TOKEN });
    expect(endpoint).toMatchObject({ host: "127.0.0.1", port: runtime.port });
    expect(readFileSync(`/proc/${runtime.tunnelPid()}/cmdline`, "utf8")).not.toContain(TOKEN);
    expect(out + runtime.file("tunnel.log") + runtime.file("tunnel.json")).not.toContain(TOKEN);
    expect((await runtime.ssh(endpoint, "echo in")).out).toBe("in\n");
  });

  it("takes the address from the agent's log if its web service does not answer", async () => {
    runtime.program(
      "ngrok",
      `[ "$1" = version ] && exit
echo '{"msg":"starting web service","addr":"127.0.0.1:1"}'
echo '{"msg":"started tunnel","addr":"//localhost:22","url":"tcp://4.tcp.example:17042"}'
exec sleep 300`,
    );
    const { endpoint } = await connected("ngrok", { NGROK_AUTHTOKEN: TOKEN });
    expect(endpoint).toMatchObject({ host: "4.tcp.example", port: 17042 });
  });

  it.each([
    ["ERR_NGROK_8013", /verified card .*\(ERR_NGROK_8013\)/],
    ["ERR_NGROK_108", /another agent of the account still runs/],
    ["ERR_NGROK_4018", /wants an authtoken/],
    ["something else", /ended at once \(exit code 1\): authentication failed: .*\*\*\*redacted\*\*\* something else/],
  ])("explains ngrok's refusal %s", async (code, words) => {
    runtime.program(
      "ngrok",
      `[ "$1" = version ] && exit; echo "authentication failed: $NGROK_AUTHTOKEN ${code}"; exit 1`,
    );
    const { out, endpoint } = await runtime.connect("ngrok", { NGROK_AUTHTOKEN: TOKEN });
    expect(endpoint).toBeNull();
    expect(out).toMatch(words);
    expect(out).not.toMatch(/Traceback|2abcDEF/);
    expect(runtime.tunnelPid()).toBeNull();
  });

  it("ends a tunnel without an address, and quotes its output", async () => {
    runtime.program("bore", 'echo "$$" >"$DIR/pid"; echo "could not reach the server"; exec sleep 300');
    const { out, endpoint } = await runtime.connect("bore", {}, "", 2);
    expect(endpoint).toBeNull();
    expect(out).toContain("told no address within 2 s; its last words: could not reach the server");
    expect(existsSync(`/proc/${readFileSync(join(runtime.dir, "pid"), "utf8").trim()}`)).toBe(false);
  });

  it("opens a pinggy tunnel without any key or configuration of the runtime", async () => {
    runtime.program("ssh", 'echo "$@" >"$DIR/args"; echo "tcp://abc.a.example:40527"; exec sleep 300');
    const { endpoint } = await connected("pinggy");
    expect(endpoint).toMatchObject({ host: "abc.a.example", port: 40527 });
    const args = readFileSync(join(runtime.dir, "args"), "utf8");
    expect(args).toMatch(new RegExp(`^-F none -p 443 .*-R0:127\\.0\\.0\\.1:${runtime.port} tcp@a\\.pinggy\\.io\n$`));
  });

  it.each([
    ["there is no SSH daemon to be had", "bore", "sshd", /could not install the SSH daemon: E: no network/],
    ["the tunnel's program is missing", "bore", "bore", /there is no program bore here/],
    ["no token is given", "ngrok", "none", /ngrok wants an authtoken/],
    ["the tunnel is unknown", "other", "none", /TUNNEL must be ngrok, bore or pinggy/],
  ])("reports that %s", async (_, tunnel, hidden, words) => {
    runtime.program("apt-get", "echo 'E: no network'; exit 100");
    runtime.program("ngrok", "exit 0");
    const hide = `inside = cell["connect"].__globals__; real = inside["program"]
inside["program"] = lambda name: None if name == "${hidden}" else real(name)
if "${hidden}" == "sshd": inside["os"].geteuid = lambda: 0`;
    const { out, endpoint } = await runtime.connect(tunnel, {}, hide);
    expect(endpoint).toBeNull();
    expect(out).toMatch(/Not connected: /);
    expect(out).toMatch(words);
    expect(out).not.toContain("Traceback");
  });

  it("installs missing programs, and nothing else", async () => {
    const code = `inside = cell["install"].__globals__; real = inside["program"]
inside["os"].geteuid = lambda: 0
inside["program"] = lambda name: None if name == "rsync" else real(name)
cell["install"]()`;
    expect(await runtime.python(code)).toContain("Installing rsync");
    const calls = readFileSync(join(runtime.dir, "calls"), "utf8").trim().split("\n");
    expect(calls.map((call) => call.replace(/.*\//, ""))).toEqual([
      "apt-get -qq update",
      "apt-get -qq install -y --no-install-recommends rsync",
    ]);
    await runtime.python('cell["install"]()');
    expect(readFileSync(join(runtime.dir, "calls"), "utf8").trim().split("\n")).toHaveLength(2);
  });

  it("contains no text that sshd would read as more than a value", async () => {
    const env = {
      CUDA_A: 'x" y',
      CUDA_B: "x\nPort 1",
      CUDA_C: "a#b",
      CUDA_D: "\\",
      CUDA_E: "fine value",
      HF_TOKEN: "t",
    };
    const out = await runtime.python('import json; print(json.dumps(cell["session_environment"]()))', env);
    const carried = JSON.parse(out) as Record<string, string>;
    expect(Object.keys(carried).filter((name) => !name.endsWith("PATH"))).toEqual(["CUDA_E"]);
  });
});
