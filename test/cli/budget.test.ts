import { afterAll, beforeAll, expect, it } from "vitest";
import { plan } from "../../src/cli/commands/plan.ts";
import { set } from "../../src/cli/commands/set.ts";
import { CLI, until, Workplace } from "./serving.ts";
import { onTerminal } from "./terminal.ts";

const place = new Workplace();
let id = "";
beforeAll(async () => {
  place.file("train.py", "print('done')\n");
  const served = await place.serve();
  const answer = await fetch(`${served.url}/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ spec: { entrypoint: "train.py", project_dir: place.project, budget_usd: 2 } }),
  });
  const job = (await answer.json()) as { id: string };
  id = job.id;
  await until(async () => (await place.status(served, id)) === "succeeded", "the run has ended");
});
afterAll(() => place.close());

const shown = (words: string, ...args: string[]) =>
  onTerminal([CLI, ...args], { until: words, type: "", env: place.env, cwd: place.project });

it("`svc jobs` shows the cost next to the budget on a terminal, and the number alone in a pipe", () => {
  expect(shown("$0.00 of $2.00", "jobs").status).toBe(0);
  expect(place.svc("jobs", id).out).not.toContain("of $2.00");
});

it("`svc timeline` shows the sums of the budget after the steps", () => {
  expect(shown("Budget: $0.00 of $2.00 spent, $2.00 left.", "timeline", id).status).toBe(0);
});

it("`svc set` adds and removes tags, and `svc jobs --tag` lists the runs that have all of them", () => {
  expect(place.svc("set", id, "--tag", "paper", "--tag", "lr=0.1").out).toContain("tags paper, lr=0.1");
  const listed = (...tags: string[]): unknown => JSON.parse(place.svc("jobs", "--json", "id,tags", ...tags).out);
  expect(listed("--tag", "paper", "--tag", "lr=0.1")).toEqual([{ id, tags: ["paper", "lr=0.1"] }]);
  expect(listed("--tag", "pap")).toEqual([]);
  expect(place.svc("set", id, "--untag", "paper", "--tag", "draft").code).toBe(0);
  expect(listed("--tag", "draft")).toEqual([{ id, tags: ["lr=0.1", "draft"] }]);
  expect(place.svc("jobs").out).toContain("lr=0.1,draft");
  expect(place.svc("set", id, "--tags=").out).not.toContain("tags");
  expect(place.svc("set", id, "--tag", "again").out).toContain("tags again");
  expect(place.svc("set", id, "--tags", "", "--label", "").out).not.toContain("again");
  const two = place.svc("set", id, "--tag", "two words");
  expect([two.code, two.err]).toEqual([2, expect.stringContaining("must be one word of letters, digits")]);
});

it("`svc plan` plans with a budget and with a given rate", () => {
  const { code, out } = place.svc("plan", "train.py", "--budget-usd", "2.5", "--rate-usd-per-hour", "0.4", "--json");
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({ budget_usd: 2.5 });
  expect(place.svc("plan", "train.py", "--budget-usd", "much").code).toBe(2);
});

it("`svc set` and `svc plan` give a limit the same flag, and the earlier word for it names the flag", () => {
  const flags = (command: typeof set): string[] => command.options.map((option) => option.flags.split(" ")[0] ?? "");
  expect(flags(plan)).toEqual(expect.arrayContaining(["--budget-usd", "--max-runtime", "--price-cap"]));
  expect(flags(set)).toEqual(expect.arrayContaining(["--budget-usd", "--max-runtime", "--price-cap"]));
  expect(place.svc("set", id, "--budget", "3").err).toContain("Did you mean --budget-usd?");
  expect(place.svc("set", id, "--budget-usd", "3", "--json").err).toContain("change_refused");
});
