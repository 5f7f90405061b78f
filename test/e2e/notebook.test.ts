// A notebook from start to end: its cell from the API, run by a real Python, a tunnel that forwards to another port
// each time, the line that it prints saved as the credential, and a run over it.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { writeFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { until, Workplace, type Served } from "../cli/serving.ts";
import { Runtime } from "../providers/notebook-runtime.ts";

let at: Workplace;
let runtime: Runtime | null = null;
beforeEach(() => void (at = new Workplace()));
afterEach(async () => {
  await at.close();
  await runtime?.close();
  runtime = null;
});

/** Does the work of bore without the other computer: listens on a free port and forwards to the given one. */
const TUNNEL = `import socket, sys, threading
server = socket.create_server(("127.0.0.1", 0))
print("INFO bore_cli::client: listening at 127.0.0.1:%d" % server.getsockname()[1], flush=True)
def pump(a, b):
    try:
        while True:
            data = a.recv(65536)
            if not data: break
            b.sendall(data)
    except OSError: pass
    for s in (a, b):
        try: s.shutdown(socket.SHUT_RDWR)
        except OSError: pass
while True:
    a, _ = server.accept()
    b = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    for pair in ((a, b), (b, a)): threading.Thread(target=pump, args=pair, daemon=True).start()`;

/** The driver answers only where its libraries are found, as on such a runtime. */
const SMI = `[ "$LD_LIBRARY_PATH" = /usr/lib64-nvidia ] || { echo "couldn't communicate with the NVIDIA driver"; exit 9; }
case "$*" in *query-gpu*) echo "Tesla T4, 15360";; *) echo "GPU 0: Tesla T4 (UUID: x)";; esac`;

const TRAIN = `import os, pathlib, subprocess, time
print("SEES", subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True).stdout.strip(), flush=True)
print("READS", (pathlib.Path(os.environ["SVC_DATA_DIR"]) / "set" / "a").read_text(), flush=True)
while not os.path.exists(os.environ["GATE"]): time.sleep(0.1)
print("OVER")
`;

interface Notebook {
  cells: { cell_type: string; source: string[] }[];
}

async function submit(served: Served, spec: object): Promise<string> {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ spec: { project_dir: at.project, ...spec } });
  const answer = await fetch(`${served.url}/jobs`, { method: "POST", headers, body });
  const record = (await answer.json()) as { id: string };
  expect(answer.status, JSON.stringify(record)).toBe(201);
  return record.id;
}

async function save(served: Served, endpoint: string): Promise<void> {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ endpoint });
  const answer = await fetch(`${served.url}/v1/credentials/notebook`, { method: "PUT", headers, body });
  expect(answer.status, await answer.text()).toBe(200);
}

test(
  "a notebook's cell connects it, and what it prints is all that a run needs; a second run of the cell keeps the connection",
  { timeout: 240_000 },
  async () => {
    at.file("train.py", TRAIN);
    mkdirSync(join(at.root, "set"));
    writeFileSync(join(at.root, "set/a"), "alpha");
    expect(at.svc("data", "add", "set", join(at.root, "set")).code).toBe(0);
    const served = await at.serve();

    const accept = "application/x-ipynb+json";
    const notebook = (await (
      await fetch(`${served.url}/v1/notebook/bootstrap`, { headers: { accept } })
    ).json()) as Notebook;
    const source = notebook.cells.find((cell) => cell.cell_type === "code")?.source.join("") ?? "";
    const opened = (runtime = await new Runtime(source).open());
    opened.program("bore", TUNNEL, "/usr/bin/env python3");
    opened.program("nvidia-smi", SMI);
    // The session's home must not be that of whoever runs this test.
    const home = JSON.stringify(join(opened.dir, "home"));
    const sandbox = `inside = cell["connect"].__globals__; real = inside["session_environment"]
inside["session_environment"] = lambda: dict(real(), HOME=${home})`;
    const connect = async () => {
      const { out, endpoint } = await opened.connect("bore", { LD_LIBRARY_PATH: "/usr/lib64-nvidia" }, sandbox);
      const [line] = /^SVC-ENDPOINT .*$/m.exec(out) ?? [];
      if (!endpoint || line === undefined) throw new Error(`it is not connected:\n${out}`);
      return { line, endpoint };
    };
    const start = async (gate = "/") => {
      const spec = { entrypoint: "train.py", provider: "notebook", gpus: "T4", data: ["set"], env: { GATE: gate } };
      return { id: await submit(served, spec) };
    };

    const first = await connect();
    expect(first.endpoint.port).not.toBe(opened.port);
    await save(served, first.line);
    const { id } = await start();
    expect(at.svc("logs", "-f", id, "--exit-status")).toMatchObject({ code: 0 });
    expect(at.svc("logs", id).out).toContain("SEES GPU 0: Tesla T4 (UUID: x)\nREADS alpha\nOVER\n");

    // The cell is run again during a run: the tunnel has another address, and the run continues.
    const gate = join(opened.dir, "gate");
    const during = await start(gate);
    await until(() => at.svc("logs", during.id).out.includes("READS alpha"), "the script is at work");
    const second = await connect();
    expect(second.endpoint.port).not.toBe(first.endpoint.port);
    expect(second.endpoint.hostKey).toBe(first.endpoint.hostKey);
    await save(served, second.line);
    writeFileSync(gate, "");
    await until(async () => (await at.status(served, during.id)) === "succeeded", "the run is over", 120_000);
    expect(at.svc("logs", during.id).out).toContain("READS alpha\nOVER\n");
    const keys = readFileSync(join(opened.dir, "home/.ssh/authorized_keys"), "utf8").trim().split("\n");
    expect(keys).toHaveLength(1);
  },
);
