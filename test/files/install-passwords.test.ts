// The password of a package index, in a project's files or in the command of the user's own.

import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { installRefused, type ProjectReader } from "../../src/files/install/project-reader.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import { secretsOfSpec } from "../../src/secrets/of-spec.ts";
import { installOf, installPlan, installStart } from "../../src/steps/launch/install-command.ts";

const INDEX = "https://me:hunter22@index.example/simple";
const PROJECT = '[project]\nname = "x"\nversion = "1"\n';
const places = { python: "python3", layout: () => ({ packages: "/packages", environment: "/environment" }) };

async function decided(files: Record<string, string>) {
  const project: ProjectReader = {
    paths: new Set(Object.keys(files)),
    read: (path) => Promise.resolve(Buffer.from(files[path] ?? "")),
  };
  const spec = { install: "auto", provider: "market", entrypoint: "train.py" } as const;
  const install = await installOf(spec, { project, entry: { kind: "python", path: "train.py" } });
  if (!("environment" in install)) throw new Error("it installs nothing");
  return install;
}

describe("a password in a project's files", () => {
  it.each<[string, Record<string, string>]>([
    [
      "an index of pyproject.toml",
      { "pyproject.toml": `${PROJECT}dependencies = ["a"]\n[[tool.uv.index]]\nurl = "${INDEX}"\n` },
    ],
    ["a package's own address", { "pyproject.toml": `${PROJECT}dependencies = ["a @ ${INDEX}/a.whl"]\n` }],
    ["a requirements file", { "requirements.txt": `--index-url ${INDEX}\na\n` }],
    ["a file that it names", { "requirements.txt": "-r more.txt\na\n", "more.txt": `-i ${INDEX}\nb\n` }],
    ["a file that only the installer reads", { "environment.yml": `dependencies: [pip: [--index-url ${INDEX}]]\n` }],
  ])("%s is found, not on the command line, and not in the plan", async (_, files) => {
    const install = await decided(files);
    expect(install.passwords).toContain("hunter22");
    expect(JSON.stringify(installPlan(install))).not.toContain("hunter22");
    const { argv, variables } = installStart(install, places);
    expect(argv).toEqual(["python3", "-u", "/packages/svc/_install.py", "/environment"]);
    expect(JSON.parse(variables["SVC_INSTALL_RECIPE"] ?? "")).toEqual(install.environment);
  });

  it("is none if it is a usual default: masked, it would be missing in names of metrics and files", async () => {
    const database =
      '[tool.pytest]\nurl = "postgresql://test:test@localhost/test"\nother = "postgres://a:password@h/x"\n';
    const install = await decided({ "pyproject.toml": `${PROJECT}dependencies = ["a"]\n${database}` });
    expect(install.passwords).toEqual([]);
  });

  it("is in no refusal that quotes its line", () => {
    const { message } = installRefused("requirements.txt", `has a line that pip cannot read: a=1 -i ${INDEX}`);
    expect(message).toContain(INDEX.replace("hunter22", "***redacted***"));
  });
});

describe("a password in the command that a spec names", () => {
  const command = `pip install -i ${INDEX} a`;
  it.each(["supersecret", "123456789012", "qwerty"])("is a secret of the run, also as plain as %s", (password) => {
    const spec = RunSpec.parse({
      entrypoint: "train.py",
      project_dir: "/p",
      install: command.replace("hunter22", password),
    });
    expect(secretsOfSpec(spec, { home: "/none", env: {} })).toContain(password);
  });

  it("is a secret of the run, and masked in the plan", () => {
    const spec = RunSpec.parse({ entrypoint: "train.py", project_dir: "/p", install: command });
    expect(secretsOfSpec(spec, { home: "/none", env: {} })).toContain("hunter22");
    expect(installPlan({ command }).steps).toEqual([command.replace("hunter22", "***redacted***")]);
  });

  it.each(['HF_TOKEN="hf_abcdefghijklmnop"', "DB_PASSWORD=hf_abcdefghijklmnop"])("%s is a secret of the run", (set) => {
    const spec = RunSpec.parse({
      entrypoint: "train.py",
      project_dir: "/p",
      install: `export ${set} && pip install a`,
    });
    expect(new Set(secretsOfSpec(spec, { home: "/none", env: {} }))).toEqual(new Set(["hf_abcdefghijklmnop"]));
  });

  it("is not on the command line of the shell, which runs the command as written", () => {
    const given = `echo "one  two"; cat <<X\n${INDEX}\nX\nenv | grep -c SVC_INSTALL; exit 3`;
    const { argv, variables } = installStart({ command: given }, places);
    expect(argv.join(" ")).not.toContain("hunter22");
    const [program = "", ...more] = argv;
    const ran = spawnSync(program, more, { env: { PATH: process.env["PATH"], ...variables }, encoding: "utf8" });
    expect(ran).toMatchObject({ status: 3, stderr: "", stdout: `one  two\n${INDEX}\n0\n` });
  });
});
