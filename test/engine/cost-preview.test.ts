import { describe, expect, it } from "vitest";
import { planRun, type PlanParts } from "../../src/engine/cost-preview.ts";
import { SvcError } from "../../src/errors/index.ts";
import { RunSpec, type RunSpecInput } from "../../src/schemas/spec.ts";
import { SmallCloud } from "./small-cloud.ts";

const spec = (rest: Partial<RunSpecInput> = {}) =>
  RunSpec.parse({ entrypoint: "train.py", provider: "podhost", gpus: "A100:2", ...rest });

function parts(rest: Partial<PlanParts> = {}): PlanParts & { cloud: SmallCloud } {
  const cloud = new SmallCloud();
  cloud.offers = [
    { id: "dear", priceMicro: 4_000_000, facts: { gpu: "2 × A100" } },
    { id: "cheap", priceMicro: 1_500_000 },
  ];
  const files = [
    { path: "train.py", size: 900 },
    { path: "data.bin", size: 5_000 },
  ];
  const measure = () => Promise.resolve({ files, bytes: 5_900, leftOut: null, missed: 0 });
  const preview = () => Promise.resolve({ install: null, start: null });
  const fixed = { checks: [], connected: true, projectDir: "/project", history: null };
  return { cloud, provider: cloud, ...fixed, measure, preview, ...rest };
}

describe("the plan of a run", () => {
  it("shows price, files, what ends the machine, and rents nothing", async () => {
    const given = parts();
    const plan = await planRun(spec({ nodes: 3, max_runtime_minutes: 120, price_cap: 2 }), given);
    expect(plan).toMatchObject({
      price_per_hour_usd: 4.5,
      // Includes the grace period of the last order to end.
      cost_max_usd: 9.05,
      offers_total: 2,
      code: { files: 2, bytes: 5_900, sent: true },
      refusals: [],
    });
    expect(plan.code?.largest[0]).toEqual({ path: "data.bin", size: 5_000 });
    expect(plan.offers.map((offer) => [offer.id, offer.within_cap])).toEqual([
      ["dear", false],
      ["cheap", true],
    ]);
    expect(plan.stops.join(" ")).toContain("2 hours (max_runtime_minutes)");
    expect(plan.warnings).toEqual([]);
    expect(given.cloud.calls.filter((call) => call.startsWith("create"))).toEqual([]);
    expect(given.cloud.machines).toEqual([]);
  });

  it("tells how machines of this kind have turned out, and which offer is tried last", async () => {
    const history = { good: 41, of: 43, seconds_to_ssh_p50: 74 };
    const given = parts({ history });
    given.cloud.offers = [
      { id: "cheap", priceMicro: 1_000_000, host: "h1", avoided: "its host was unfit 2 days ago: no GPU" },
      { id: "dear", priceMicro: 1_200_000, host: "h2" },
    ];
    const plan = await planRun(spec(), given);
    expect(plan.history).toEqual(history);
    expect(plan.offers.map(({ id, avoided }) => [id, avoided])).toEqual([
      ["cheap", "its host was unfit 2 days ago: no GPU"],
      ["dear", null],
    ]);
    expect(plan.price_per_hour_usd).toBe(1.2);
  });

  it("warns about costs without a limit", async () => {
    const plan = await planRun(spec({ terminate_on_exit: false }), parts());
    expect(plan.cost_max_usd).toBeNull();
    expect(plan.warnings.join("\n")).toMatch(
      /Without a price cap[^]*Without a time limit[^]*continues when the control plane ends/,
    );
  });

  it("gathers every refusal with its field, and still counts the files", async () => {
    const plan = await planRun(
      spec({ price_cap: 1 }),
      parts({
        checks: [
          () => {
            throw new SvcError("entrypoint_not_found", { entrypoint: "train.py", project_dir: "/p" });
          },
          () =>
            Promise.reject(
              new SvcError("job_not_found", { id: "x" }, { errors: [{ field: "spec.resume_from", message: "gone" }] }),
            ),
        ],
      }),
    );
    expect(plan.refusals.map(({ code, field }) => [code, field])).toEqual([
      ["entrypoint_not_found", null],
      ["job_not_found", "spec.resume_from"],
      ["price_cap_exceeded", null],
    ]);
    expect(plan.code?.files).toBe(2);
    expect(plan.price_per_hour_usd).toBeNull();
  });

  it("reports a refusal once that both a check and the count of files find", async () => {
    const missing = (errors?: { field: string; message: string }[]) =>
      new SvcError("project_dir_refused", { project_dir: "/p", why: "does not exist" }, errors ? { errors } : {});
    const field = "spec.project_dir";
    const plan = await planRun(
      spec(),
      parts({
        checks: [() => Promise.reject(missing([{ field, message: missing().message }]))],
        measure: () => Promise.reject(missing()),
      }),
    );
    expect(plan.refusals.map((refusal) => refusal.field)).toEqual([field]);
  });

  it("asks no provider that is not connected, or that cannot serve the spec", async () => {
    for (const rest of [
      { connected: false },
      {
        checks: [
          () => {
            const errors = [{ field: "spec.gpus", message: "no" }];
            throw new SvcError("gpus_unsupported", { provider: "podhost", gpus: "A100:2" }, { errors });
          },
        ],
      },
    ]) {
      const given = parts(rest);
      const plan = await planRun(spec(), given);
      expect(given.cloud.calls).toEqual([]);
      expect(plan.offers).toEqual([]);
      expect(plan.code?.files).toBe(2);
    }
  });

  it("says that the provider has no machine now", async () => {
    const given = parts();
    given.cloud.offers = [];
    const plan = await planRun(spec(), given);
    expect(plan.refusals.map((refusal) => refusal.code)).toEqual(["no_offer"]);
  });

  it.each([
    [["--epochs 10 --lr 0.1"], /One argument holds blanks/],
    [["train", "a --b"], /One argument holds blanks/],
    [["--lr 0.1", "--n 3"], /2 arguments hold blanks/],
    [["--prompt", "well - it is"], null],
    [["--name=a b", "c d"], null],
  ])("warns where the arguments %j look like a line of a shell", async (args, words) => {
    const { warnings } = await planRun(spec({ args }), parts());
    const told = warnings.filter((warning) => warning.includes("argument"));
    expect(told).toEqual(words === null ? [] : [expect.stringMatching(words)]);
  });
});
