// How scripts are started on this computer: real interpreters, real virtual environments, a real control plane.

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JobRecord, Problem } from "../../src/schemas/job.ts";
import type { Plan } from "../../src/schemas/plan.ts";
import { until, Workplace, type Served } from "../cli/serving.ts";
import { SDKS } from "../program.ts";

let place: Workplace;
let served: Served;
beforeAll(async () => {
  place = new Workplace();
  served = await place.serve();
});
afterAll(() => place.close());

const at = (name: string): string => join(place.project, name);
function put(name: string, text: string, mode = 0o644): void {
  mkdirSync(dirname(at(name)), { recursive: true });
  writeFileSync(at(name), text);
  chmodSync(at(name), mode);
}
const post = (path: string, spec: Record<string, unknown>): Promise<Response> =>
  fetch(`${served.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ spec: { project_dir: place.project, ...spec } }),
  });

/** Runs the spec to its end; returns its record and its log. */
async function ran(spec: Record<string, unknown>): Promise<{ record: JobRecord; log: string[] }> {
  const answer = await post("/jobs", spec);
  expect(answer.status, await answer.clone().text()).toBe(201);
  const { id } = (await answer.json()) as JobRecord;
  const look = async () => (await (await fetch(`${served.url}/jobs/${id}`)).json()) as JobRecord;
  await until(async () => (await look()).ended_at !== null, `${String(spec["entrypoint"])} ends`, 90_000);
  const log = await (await fetch(`${served.url}/jobs/${id}/logs`)).text();
  return { record: await look(), log: log.split("\n").filter((line) => line !== "") };
}
async function refused(spec: Record<string, unknown>): Promise<Problem> {
  const answer = await post("/jobs", spec);
  expect(answer.status).toBe(400);
  return (await answer.json()) as Problem;
}
const SAY_BASH = 'A=(one "two three"); printf "%s|" "${A[@]}" "$@"; echo\n';

describe("a script is started", () => {
  it("by its first line, whatever its ending, with and without the execute bit", { tags: "needs/bash" }, async () => {
    put("exec.sh", `#!/usr/bin/env bash\n${SAY_BASH}`, 0o755);
    put("named.sh", `#!/usr/bin/env bash\n${SAY_BASH}`);
    put("odd.py", `#!/usr/bin/env -S bash -eu\n${SAY_BASH}`, 0o755);
    put("none.sh", SAY_BASH);
    put("sub/none", SAY_BASH, 0o755);
    for (const entrypoint of ["exec.sh", "named.sh", "odd.py", "none.sh", "sub/none"]) {
      const { record, log } = await ran({ entrypoint, args: ["a b"] });
      expect([entrypoint, record.status, log]).toEqual([entrypoint, "succeeded", ["one|two three|a b|"]]);
    }
  });

  it("by Perl and Node if they are named", { tags: "needs/perl" }, async () => {
    put("a.pl", '#!/usr/bin/perl -w\nprint "perl @ARGV\\n";\n');
    put("a.py", `#!${process.execPath}\nconsole.log("node", process.argv.slice(2).join());\n`, 0o755);
    expect((await ran({ entrypoint: "a.pl", args: ["x"] })).log).toEqual(["perl x"]);
    expect((await ran({ entrypoint: "a.py", args: ["x"] })).log).toEqual(["node x"]);
  });

  it("not at all if its interpreter is missing on this computer: the submission is refused, and says what is missing", async () => {
    put("gone.sh", "#!/no/such/interpreter\n", 0o755);
    put("gone2.sh", "#!/usr/bin/env no-such-shell-here\n");
    put("gone.py", "#!/usr/bin/env python3.999\n");
    for (const [entrypoint, missing] of [
      ["gone.sh", "/no/such/interpreter"],
      ["gone2.sh", "no-such-shell-here"],
      ["gone.py", "python3.999"],
    ] as const) {
      const { code, detail, errors } = await refused({ entrypoint });
      expect([code, errors?.[0]?.field]).toEqual(["entrypoint_not_runnable", "spec.entrypoint"]);
      expect(detail).toContain(`there is no program ${missing}`);
    }
  });

  it("with Windows line ends only by programs that can read them", async () => {
    put("dos.py", "#!/usr/bin/env python3\r\nprint('fine')\r\n", 0o755);
    put("dos.sh", "#!/bin/bash\r\necho no\r\n", 0o755);
    expect((await ran({ entrypoint: "dos.py" })).log).toEqual(["fine"]);
    expect((await refused({ entrypoint: "dos.sh" })).detail).toContain("line ends of Windows (CRLF)");
  });
});

describe("the Python of a local run", () => {
  const only =
    'import os, shutil, sys\nimport only_here\nprint(sys.prefix == os.environ["VIRTUAL_ENV"], shutil.which("python") == sys.prefix + "/bin/python")\n';
  beforeAll(() => {
    execFileSync("python3", ["-m", "venv", "--without-pip", at(".venv")]);
    const where = execFileSync(at(".venv/bin/python"), [
      "-c",
      "import sysconfig; print(sysconfig.get_path('purelib'))",
    ]);
    writeFileSync(join(where.toString().trim(), "only_here.py"), "X = 1\n");
    put("only.py", only);
    put("shell.sh", "#!/bin/sh\npython only.py\n", 0o755);
  });

  it("is the one in `python`: a path, a path from the project, the folder of an environment", async () => {
    for (const python of [at(".venv/bin/python"), ".venv/bin/python", ".venv"])
      expect((await ran({ entrypoint: "only.py", python })).log).toEqual(["True True"]);
    const { record } = await ran({ entrypoint: "only.py" });
    expect(record.error?.message).toContain("No module named 'only_here'");
    expect(record.error?.hint).toContain("uses the packages of its Python, and svc installs none");
    expect(record.error?.hint).toContain(`svc logs ${record.id} --tail 50`);
  });

  it("is also the one that a shell script of the run finds", async () => {
    expect((await ran({ entrypoint: "shell.sh", python: ".venv" })).log).toEqual(["True True"]);
  });

  it("is the one that the script's first line names exactly", async () => {
    put("certain.py", `#!${at(".venv/bin/python")}\n${only}`, 0o755);
    expect((await ran({ entrypoint: "certain.py" })).log).toEqual(["True True"]);
  });

  it("is the one of the SDK's caller, in Python", () => {
    const program =
      'import svc, only_here\nj = svc.run(task=svc.Task("only.py"), wait=True)\nprint(j.status, j.spec["python"])\n';
    const env = { ...place.env, ...SDKS };
    const out = execFileSync(at(".venv/bin/python"), ["-c", program], { cwd: place.project, env, encoding: "utf8" });
    expect(out.trim()).toBe(`succeeded ${at(".venv/bin/python")}`);
  });

  it("is refused with an explanation if it cannot be used", async () => {
    put("old/bin/python", "#!/bin/sh\necho 3.9.1; echo /x\n", 0o755);
    put("no/bin/python", "#!/bin/sh\nexit 1\n", 0o755);
    symlinkSync("/no/such/python", at("broken"));
    for (const [python, why] of [
      ["/no/such/python", "there is no such program on this computer"],
      ["broken", "no program of that name is on the PATH"],
      ["no-such-python", "no program of that name is on the PATH"],
      ["old", "it is Python 3.9.1, and svc needs 3.10 or newer"],
      ["no/bin/python", "its answer is not a Python interpreter's"],
    ]) {
      const { code, detail, errors } = await refused({ entrypoint: "only.py", python });
      expect([code, errors?.[0]?.field]).toEqual(["python_refused", "spec.python"]);
      expect(detail).toContain(why);
    }
  });

  it("is refused for a rented machine, naming the field", async () => {
    const plan = (await (
      await post("/v1/plan", { entrypoint: "only.py", provider: "podhost", gpus: "A100", python: "x" })
    ).json()) as Plan;
    expect(plan.refusals).toContainEqual(expect.objectContaining({ code: "python_refused", field: "spec.python" }));
  });
});

describe("the plan", () => {
  it("shows what starts the script and what is installed, for a run here and for a rented one", async () => {
    put("planned/train.py", "");
    put("planned/run.sh", "#!/usr/bin/env bash\n", 0o755);
    put("planned/pyproject.toml", '[project]\nname = "x"\nversion = "1"\ndependencies = ["numpy>=2"]\n');
    const told = async (spec: Record<string, unknown>) =>
      (await (await post("/v1/plan", { project_dir: at("planned"), ...spec })).json()) as Plan;
    const here = await told({ entrypoint: "train.py", python: at(".venv/bin/python") });
    expect(here.start).toMatchObject({
      command: [at(".venv/bin/python"), "-u", "train.py"],
      python: at(".venv/bin/python"),
    });
    expect(here.install).toMatchObject({ does: "nothing", steps: [] });
    expect((await told({ entrypoint: "run.sh" })).start).toMatchObject({
      command: ["./run.sh"],
      words: expect.stringContaining("#!/usr/bin/env bash") as string,
    });
    const rented = await told({ entrypoint: "train.py", provider: "podhost", gpus: "A100:2" });
    expect(rented.start?.command).toEqual(expect.arrayContaining(["torch.distributed.run", "--nproc_per_node=2"]));
    expect(rented.install).toMatchObject({ does: "packages", packages: ["numpy>=2"] });
  });

  it("refuses an impossible installation, naming the file and the line", async () => {
    put("no-toml/train.py", "");
    put("no-toml/pyproject.toml", "[project]\nname = \n");
    const spec = { project_dir: at("no-toml"), entrypoint: "train.py", provider: "podhost", gpus: "A100" };
    const { refusals } = (await (await post("/v1/plan", spec)).json()) as Plan;
    expect(refusals).toContainEqual(
      expect.objectContaining({
        code: "install_refused",
        field: "spec.install",
        message: expect.stringMatching(/pyproject\.toml is not valid TOML: line 2/) as string,
      }),
    );
  });
});

it("the record of a failed script gives the reason, by its last meaningful line", async () => {
  put("parse.py", "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\np.parse_args()\n");
  put("three.sh", "#!/bin/sh\necho epoch 1\necho 'the disk is gone' >&2\nexit 3\n", 0o755);
  expect((await ran({ entrypoint: "parse.py", args: ["--epochs 10 --lr 1"] })).record.error?.message).toBe(
    "The script ended with exit code 2: parse.py: error: unrecognized arguments: --epochs 10 --lr 1.",
  );
  expect((await ran({ entrypoint: "three.sh" })).record.error?.message).toBe(
    "The script ended with exit code 3. Its last line was: the disk is gone",
  );
});
