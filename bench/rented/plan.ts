// The plan of four candidates at three providers, two of them at the marketplace, whose answer is full: it has room for 64 machines. Each round
// asks a control plane that has asked nothing before.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Plan } from "../../src/schemas/plan.ts";
import { serveSims } from "../../test/sim/serve.ts";
import { rowOf, type Row } from "../lib/measure.ts";
import { Served } from "../lib/served.ts";

const ROUNDS = 5;
const CANDIDATES = [
  { provider: "podhost", gpus: "RTX4090" },
  { provider: "market", gpus: "RTX4090" },
  { provider: "market", gpus: "H100" },
  { provider: "cloudvm", gpus: "L4" },
];

export async function measurePlan(folder: string): Promise<Row[]> {
  const project = join(folder, "project");
  mkdirSync(project);
  writeFileSync(join(project, "train.py"), "print(1)\n");
  const sims = await serveSims({ providers: [], port: 0, faults: [], say: () => {} });
  const [took, unknown]: [number[], number[]] = [[], []];
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const served = await Served.start(sims.env["SVC_HOME"] ?? folder, project, sims.env);
      const body = { spec: { entrypoint: "train.py", candidates: CANDIDATES, choose: "cheapest" } };
      const answer = await served.post("/v1/plan", body);
      await served.stop();
      if (answer.status !== 200) throw new Error(`POST /v1/plan: ${answer.status} ${answer.body.toString()}`);
      const plan = JSON.parse(answer.body.toString()) as Plan;
      const without = plan.candidates.filter(({ offers_total: count }) => count === 0);
      if (without.some(({ refusal }) => refusal?.code !== "offers_unknown"))
        throw new Error(`a candidate has no offers: ${JSON.stringify(without)}`);
      took.push(answer.ms);
      unknown.push(without.length);
    }
  } finally {
    await sims.close();
  }
  return [
    rowOf({
      what: "plan of 4 candidates at 3 providers, where the market's answer is full",
      unit: "ms",
      values: took,
      target: "< 2,000 ms",
      met: (f) => f < 2_000,
    }),
    rowOf({
      what: "of them, candidates that the plan calls unknown",
      unit: "",
      values: unknown,
      target: "(no target)",
      met: () => true,
    }),
  ];
}
