import { describe, expect, it } from "vitest";
import { RunSpec, type RunSpecInput } from "../../../src/schemas/spec.ts";
import { RunnerSpec } from "../../../src/schemas/runner.ts";
import { planRunner, type PlanInput, type RunPlan } from "../../../src/steps/launch/runner-spec.ts";

function plan(spec: Partial<RunSpecInput> = {}, more: Partial<PlanInput> = {}): RunPlan {
  return planRunner({
    jobId: "job1",
    node: 0,
    placement: 1,
    spec: RunSpec.parse({ entrypoint: "train.py", ...spec }),
    entry: { kind: "python", path: "train.py" },
    python: "/usr/bin/python3",
    projectDir: "/p",
    checkpointDir: "/c",
    dataDir: "/d",
    packageDir: "/pkg",
    addresses: ["127.0.0.1"],
    inPlace: true,
    installed: false,
    resumeFrom: null,
    rayToken: "token",
    mark: "mark",
    nonce: "n".repeat(16),
    inherited: {},
    secret: (reference) => `value of ${reference}`,
    injected: { secrets: {}, plain: {} },
    ...more,
  });
}
const env = (spec: Partial<RunSpecInput>, more: Partial<PlanInput> = {}) => plan(spec, more).runner.env;

describe("the command", () => {
  it.each<[PlanInput["entry"], string[]]>([
    [{ kind: "python", path: "src/train.py" }, ["/usr/bin/python3", "-u", "src/train.py"]],
    [{ kind: "module", path: "pkg.train" }, ["/usr/bin/python3", "-u", "-m", "pkg.train"]],
    [{ kind: "interpreter", path: "run.sh", words: ["/bin/bash"] }, ["/bin/bash", "./run.sh"]],
    [{ kind: "exec", path: "bin/train" }, ["./bin/train"]],
  ])("of %j is %j", (entry, argv) => {
    expect(plan({ args: ["--name", "a b", "$HOME", ""] }, { entry }).runner.argv).toEqual([
      ...argv,
      "--name",
      "a b",
      "$HOME",
      "",
    ]);
  });

  it("is what the runner understands", () => {
    expect(() => RunnerSpec.parse(plan({ env: { A: "1" } }, { inherited: { PET_X: "1" } }).runner)).not.toThrow();
  });
});

describe("the environment", () => {
  describe("at a tracker", () => {
    const injected = { secrets: { WANDB_API_KEY: "key" }, plain: {} };
    const ids = { WANDB_RUN_ID: "job1", WANDB_RESUME: "allow" };

    it("is the same on every machine of the job, so that the script's own run continues", () => {
      for (const placement of [1, 2]) expect(env({}, { injected, inPlace: false, placement })).toMatchObject(ids);
    });

    it("is left to the script without a tracker, on this computer, and on other nodes than the first", () => {
      const others: Partial<PlanInput>[] = [{ inPlace: false }, { injected }, { injected, inPlace: false, node: 1 }];
      for (const more of others) expect(Object.keys(env({}, more))).not.toContain("WANDB_RUN_ID");
    });

    it("is the job's own if it names one", () => {
      const own = { WANDB_RUN_ID: "mine", WANDB_RESUME: "must" };
      expect(env({ env: own }, { injected, inPlace: false })).toMatchObject(own);
    });
  });

  it("says which placement it is, and from which checkpoint it starts", () => {
    expect(env({}, { placement: 3, resumeFrom: "/c/step_40" })).toMatchObject({
      SVC_PLACEMENT: "3",
      SVC_RESUME_FROM: "/c/step_40",
    });
    // A value of this computer would belong to another run.
    expect(env({}, { inherited: { SVC_RESUME_FROM: "/other" } })).toMatchObject({ SVC_RESUME_FROM: null });
  });

  it("prefers the job's own values to this computer's, and svc's to this computer's if svc sets them for the run", () => {
    const given = { PYTHONUNBUFFERED: "0", MINE: "1" };
    expect(
      env({ env: given }, { inherited: { MINE: "0", SVC_JOB_ID: "another", SVC_DATA_DIR: "/elsewhere" } }),
    ).toMatchObject({
      PYTHONUNBUFFERED: "0",
      MINE: "1",
      SVC_JOB_ID: "job1",
      SVC_CHECKPOINT_DIR: "/c",
      SVC_DATA_DIR: "/d",
      SVC_NODE_RANK: "0",
      SVC_NUM_NODES: "1",
    });
    // A variable that is set here is inherited; a default must not cover it.
    expect(Object.keys(env({}, { inherited: { TQDM_MININTERVAL: "1" } }))).not.toContain("TQDM_MININTERVAL");
    expect(env({})).toMatchObject({ PYTHONUNBUFFERED: "1", TQDM_MININTERVAL: "5" });
  });

  it("names the project as the working folder, as a shell does", () => {
    const inherited = { PWD: "/elsewhere", OLDPWD: "/before" };
    expect(env({}, { projectDir: "/p", inherited })).toMatchObject({ PWD: "/p", OLDPWD: null });
    // A variable of this name may be a password: it is passed as one.
    expect(env({ env: { PWD: "/mine" } }, { inherited })["PWD"]).toBeUndefined();
  });

  it("makes subprocesses use the run's Python, unless the job says otherwise", () => {
    const pythonEnv = { PATH: "/v/bin:/usr/bin", VIRTUAL_ENV: "/v", CONDA_PREFIX: null };
    expect(env({}, { pythonEnv })).toMatchObject(pythonEnv);
    expect(env({ env: { PATH: "/mine" } }, { pythonEnv })).toMatchObject({ ...pythonEnv, PATH: "/mine" });
    expect(Object.keys(env({ env: { PATH: "env://MY_PATH" } }, { pythonEnv }))).not.toContain("PATH");
  });

  it("does not inherit launcher options from this computer, but takes them from the job", () => {
    expect(env({}, { inherited: { PET_NPROC: "8", PETS: "1" } })).toMatchObject({ PET_NPROC: null });
    expect(Object.keys(env({}, { inherited: { PETS: "1" } }))).not.toContain("PETS");
    expect(env({ env: { PET_NPROC: "2" } }, { inherited: { PET_NPROC: "8" } })["PET_NPROC"]).toBe("2");
  });

  it.each([
    [{}, {}, "/pkg"],
    [{}, { PYTHONPATH: "/mine:/other" }, "/mine:/other:/pkg"],
    [{ PYTHONPATH: "/job" }, { PYTHONPATH: "/mine" }, "/job:/pkg"],
    [{ PYTHONPATH: "" }, { PYTHONPATH: "/mine" }, "/pkg"],
  ])("keeps PYTHONPATH and adds our package behind it: %j over %j", (given, inherited, path) => {
    expect(env({ env: given }, { inherited })["PYTHONPATH"]).toBe(path);
  });
});

describe("secrets", () => {
  const SECRETS = { API_KEY: "k-1", HF_TOKEN: "t-2", REF: "env://X", DEEP: "store://a/b", MY_PASSWORD: "p-3" };

  it("travel separately: none is in the runner's open specification", () => {
    const { runner, secretEnv } = plan({ env: { ...SECRETS, EPOCHS: "3" } });
    expect(secretEnv).toEqual({
      API_KEY: "k-1",
      HF_TOKEN: "t-2",
      REF: "value of env://X",
      DEEP: "value of store://a/b",
      MY_PASSWORD: "p-3",
      SVC_METRICS_MARK: "mark",
    });
    expect(JSON.stringify(runner)).not.toMatch(/k-1|t-2|p-3|value of|"mark"/);
    expect(runner.env["EPOCHS"]).toBe("3");
  });

  it("from the job take precedence over those of every run", () => {
    const { runner, secretEnv } = plan(
      { env: { HUB_TOKEN: "mine", HF_HOME: "/mine" } },
      {
        injected: {
          secrets: { HUB_TOKEN: "ours", TRACKER_API_KEY: "key" },
          plain: { HF_HOME: "/ours", HUB_HOME: "/ours", WANDB_PROJECT: "ours" },
        },
        inherited: { WANDB_PROJECT: "theirs" },
      },
    );
    expect(secretEnv).toMatchObject({ HUB_TOKEN: "mine", TRACKER_API_KEY: "key" });
    expect(runner.env).toMatchObject({ HF_HOME: "/mine", HUB_HOME: "/ours" });
    expect(runner.env["WANDB_PROJECT"], "this computer's own is inherited").toBeUndefined();
  });

  it("stay separate also as PYTHONPATH, and our package is still found", () => {
    const { runner, secretEnv } = plan({ env: { PYTHONPATH: "env://LIBS" } });
    expect(JSON.stringify(runner)).not.toContain("value of");
    expect(secretEnv["PYTHONPATH"]).toBe("value of env://LIBS:/pkg");
  });
});
