// A run cannot wait for a machine that can never exist: it is refused at submission, with the field that has to change.

import { expect, test } from "vitest";
import { checkCandidates } from "../../src/engine/check-candidates.ts";
import { SvcError } from "../../src/errors/index.ts";
import { LocalProvider } from "../../src/providers/local/provider.ts";
import { PROVIDER_NAMES } from "../../src/providers/descriptors.ts";
import type { Provider } from "../../src/providers/provider.ts";
import { REMOTE_PROVIDERS } from "../../src/providers/registry.ts";
import { CHECK_OPTIONS } from "../providers/check-options.ts";
import { RunSpec, type RunSpecInput } from "../../src/schemas/spec.ts";

const providers = new Map<string, Provider>(
  PROVIDER_NAMES.map((name) => [
    name,
    name === "local"
      ? new LocalProvider({ home: "", runnerPath: "", python: () => Promise.resolve(""), prefix: "" })
      : REMOTE_PROVIDERS[name].open(CHECK_OPTIONS),
  ]),
);

/** The field that the refusal names; null if the spec is accepted. */
function refused(spec: Partial<RunSpecInput>): string | null {
  try {
    const checks = { providers, describeProviders: () => [], checkCredential: () => undefined };
    checkCandidates(checks, RunSpec.parse({ entrypoint: "train.py", wait_for_capacity_minutes: 60, ...spec }));
    return null;
  } catch (e) {
    if (!(e instanceof SvcError)) throw e;
    return e.errors?.map(({ field }) => field).join(" ") ?? e.code;
  }
}
const on = (...names: ("podhost" | "market" | "cloudvm")[]) => names.map((provider) => ({ provider }));

test.each(["podhost", "market", "cloudvm"] as const)(
  "%s never has a GPU with more memory than its kind has",
  (provider) => {
    expect(refused({ provider, gpus: "T4", min_vram_gb: 5_000 })).toBe("spec.min_vram_gb");
    expect(refused({ provider, gpus: "A100-40GB", min_vram_gb: 81 })).toBe("spec.min_vram_gb");
    expect(refused({ provider, gpus: "T4", min_vram_gb: 15 })).toBe(null);
  },
);

test("A run can wait for a card that some providers sell with twice its memory, and for a GPU that svc does not know", () => {
  expect(refused({ provider: "market", gpus: "RTX4090", min_vram_gb: 48 })).toBe(null);
  expect(refused({ provider: "market", gpus: "Z9000", min_vram_gb: 5_000 })).toBe(null);
});

test.each<[string, Partial<RunSpecInput>, string]>([
  ["nodes that the provider does not serve", { provider: "market", gpus: "L4", nodes: 2 }, "spec.nodes"],
  ["nodes that no candidate serves", { candidates: on("market", "market"), gpus: "L4", nodes: 2 }, "spec.nodes"],
  [
    "nodes that one candidate does not serve",
    { candidates: on("podhost", "market"), gpus: "L4", nodes: 2 },
    "spec.candidates.1.provider",
  ],
  ["spot machines of a provider that has none", { provider: "podhost", gpus: "L4", spot: "only" }, "spec.spot"],
  ["spot machines of the run", { candidates: on("market", "podhost"), gpus: "L4", spot: "only" }, "spec.spot"],
  [
    "spot machines of a candidate",
    { candidates: [{ provider: "market" }, { provider: "podhost", spot: "only" }], gpus: "L4" },
    "spec.candidates.1.spot",
  ],
  [
    "memory that a candidate asks for",
    { candidates: [{ provider: "podhost" }, { provider: "market", gpus: "T4", min_vram_gb: 900 }], gpus: "L4" },
    "spec.candidates.1.min_vram_gb",
  ],
  ["memory that the run asks for", { candidates: on("podhost"), gpus: "L4", min_vram_gb: 900 }, "spec.min_vram_gb"],
])("A wait for %s is refused, and the field that has to change is named", (_what, spec, field) => {
  expect(refused(spec)).toBe(field);
});

test("Candidates that agree with the run are accepted", () => {
  expect(refused({ candidates: on("podhost", "cloudvm"), gpus: "L4", nodes: 2 })).toBe(null);
  expect(refused({ candidates: on("market", "cloudvm"), gpus: "L4", spot: "only" })).toBe(null);
});
