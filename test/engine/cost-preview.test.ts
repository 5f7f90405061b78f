import { describe, expect, it } from "vitest";
import { planRun, type PlanParts } from "../../src/engine/cost-preview.ts";
import { SvcError } from "../../src/errors/index.ts";
import type { Offer } from "../../src/providers/provider.ts";
import { Plan } from "../../src/schemas/plan.ts";
import { RunSpec, type RunSpecInput } from "../../src/schemas/spec.ts";
import { TestClock, turn } from "./harness.ts";
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
  return {
    cloud,
    checks: [],
    clock: new TestClock(),
    providerOf: () => cloud,
    isConnected: () => true,
    checkCandidate: () => {},
    startTimes: () => null,
    history: () => null,
    projectDir: "/project",
    measure,
    preview,
    ...rest,
  };
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
    const given = parts({ history: () => history });
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
      { isConnected: () => false },
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

describe("the plan of a run with several candidates", () => {
  const CANDIDATES: RunSpecInput["candidates"] = [
    { provider: "podhost", gpus: "A100" },
    { provider: "market", gpus: "H100:2", spot: "prefer" },
    { provider: "cloudvm", gpus: "L4", region: "europe-west4" },
  ];
  /** One provider for each candidate, by its name. */
  function clouds(rest: Partial<PlanParts> = {}) {
    const of = (...offers: Offer[]): SmallCloud => Object.assign(new SmallCloud(), { offers });
    const each: Record<string, SmallCloud> = {
      podhost: of({ id: "p1", priceMicro: 3_000_000 }),
      market: of({ id: "m1", priceMicro: 2_000_000, spot: true }, { id: "m2", priceMicro: 5_000_000 }),
      cloudvm: of({ id: "c1", priceMicro: null }),
    };
    // Its machines are rented although it reports no price.
    const { info } = each["cloudvm"] as SmallCloud;
    Object.assign(info, { capabilities: { ...info.capabilities, reports_price: false } });
    return { each, ...parts({ providerOf: (name) => each[name], ...rest }) };
  }
  const many = (rest: Partial<RunSpecInput> = {}) => spec({ candidates: CANDIDATES, price_cap: 4, ...rest });

  it("lists the offers of all of them with candidate, price, spot and cap, and the order in which they are tried", async () => {
    const startTimes = (provider: string) => (provider === "market" ? { seconds: 90, ssh_seconds: 60, runs: 7 } : null);
    const plan = Plan.parse(await planRun(many(), clouds({ startTimes })));
    expect(plan.offers.map((o) => [o.candidate, o.provider, o.id, o.price_per_hour_usd, o.spot, o.within_cap])).toEqual(
      [
        [0, "podhost", "p1", 3, false, true],
        [1, "market", "m1", 2, true, true],
        [1, "market", "m2", 5, false, false],
        [2, "cloudvm", "c1", null, false, true],
      ],
    );
    expect([plan.order, plan.price_per_hour_usd, plan.provider]).toEqual([[0, 1, 2], 3, "podhost"]);
    expect(plan.candidates[1]).toMatchObject({
      spot: "prefer",
      expected_start: { seconds: 90, runs: 7 },
      refusal: null,
    });
    expect(plan.refusals).toEqual([]);
    // The cheapest first; a price that is not reported comes last.
    const cheapest = await planRun(many({ choose: "cheapest" }), clouds());
    expect([cheapest.order, cheapest.price_per_hour_usd, cheapest.provider]).toEqual([[1, 0, 2], 2, "market"]);
  });

  it("gives the reason of each candidate without a machine, and refuses the run only if all lack one", async () => {
    const some = clouds();
    some.each["podhost"]!.offers = [];
    const plan = await planRun(many(), some);
    expect([plan.order, plan.refusals]).toEqual([[1, 2], []]);
    expect(plan.candidates.map(({ refusal }) => refusal?.code ?? null)).toEqual(["no_offer", null, null]);
    const none = clouds();
    for (const cloud of Object.values(none.each)) cloud.offers = [];
    expect((await planRun(many(), none)).refusals.map(({ code }) => code)).toEqual([
      "no_offer",
      "no_offer",
      "no_offer",
    ]);
    const waits = await planRun(many({ wait_for_capacity_minutes: 120 }), none);
    expect([waits.refusals, waits.order]).toEqual([[], []]);
    expect(waits.warnings.join()).toContain("wait for up to 2 hours, at no cost");
  });

  it("refuses a candidate that contradicts the run with its field, and asks the others", async () => {
    const checkCandidate = (index: number) => {
      if (index !== 1) return;
      const error = new SvcError("gpus_unsupported", { provider: "market", gpus: "H100:2" });
      throw new SvcError(error.code, error.data, { errors: [{ field: "spec.candidates.1.gpus", message: "no" }] });
    };
    const given = clouds({ checkCandidate });
    const plan = await planRun(many(), given);
    expect(plan.refusals).toMatchObject([{ code: "gpus_unsupported", field: "spec.candidates.1.gpus" }]);
    expect(plan.order).toEqual([0, 2]);
    expect(given.each["market"]!.calls).toEqual([]);
  });

  it("does not wait for a provider that answers slowly once another has offers, and says that its offers are unknown", async () => {
    const clock = new TestClock();
    const given = clouds({ clock });
    const asked = Promise.withResolvers<void>();
    given.each["market"]!.before = () => {
      asked.resolve();
      return new Promise(() => undefined);
    };
    const planning = planRun(many({ choose: "cheapest" }), given);
    await asked.promise;
    await turn();
    await clock.advance(4_000);
    const plan = await planning;
    expect([plan.order, plan.refusals, plan.provider]).toEqual([[0, 2], [], "podhost"]);
    expect(plan.candidates[1]).toMatchObject({ offers_total: 0, refusal: { code: "offers_unknown" } });
    expect(plan.warnings.join()).toContain(
      "The offers of market H100:2 are not known yet: order and price may change.",
    );
  });

  it("asks all of them at once, and waits no longer than for the slowest", async () => {
    const given = clouds();
    const asked: string[] = [];
    const all = Promise.withResolvers<void>();
    for (const [name, cloud] of Object.entries(given.each))
      cloud.before = async (call) => {
        if (!call.startsWith("list") && !call.includes("offers")) return;
        asked.push(name);
        if (asked.length === 3) all.resolve();
        // Each answers only when the others have been asked too.
        await all.promise;
      };
    expect((await planRun(many(), given)).order).toEqual([0, 1, 2]);
    expect(asked.toSorted()).toEqual(["cloudvm", "market", "podhost"]);
  });
});
