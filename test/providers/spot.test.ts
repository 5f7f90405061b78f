// Providers with spot machines offer them; the others refuse a run that asks for them.

import { expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { checkCapabilities } from "../../src/engine/check-spec.ts";
import { LocalProvider } from "../../src/providers/local/provider.ts";
import type { Provider } from "../../src/providers/provider.ts";
import { REMOTE_PROVIDERS } from "../../src/providers/registry.ts";
import { CHECK_OPTIONS } from "./check-options.ts";
import { PROVIDER_NAMES } from "../../src/providers/descriptors.ts";
import { RunSpec } from "../../src/schemas/spec.ts";

const providers: Provider[] = PROVIDER_NAMES.map((name) =>
  name === "local"
    ? new LocalProvider({ home: "", runnerPath: "", python: () => Promise.resolve(""), prefix: "" })
    : REMOTE_PROVIDERS[name].open(CHECK_OPTIONS),
);
const refusal = (provider: Provider, spot: "never" | "prefer" | "only" | undefined): string => {
  const gpus = provider.name === "local" ? "cpu" : "L4";
  try {
    const spec = RunSpec.parse({ entrypoint: "train.py", provider: provider.name, gpus, spot });
    checkCapabilities(spec, provider);
    provider.check?.(spec);
    return "taken";
  } catch (e) {
    return e instanceof SvcError ? `${e.code} ${e.errors?.[0]?.field}` : String(e);
  }
};

test("market and cloudvm have spot machines, the others have none", () => {
  expect(providers.filter(({ info }) => info.capabilities.spot).map(({ name }) => name)).toEqual(["market", "cloudvm"]);
});

test.each(providers.map((provider) => [provider.name, provider] as const))(
  "%s takes a run that asks for spot machines only where it has them",
  (_name, provider) => {
    const asked = provider.info.capabilities.spot ? "taken" : "spot_unsupported spec.spot";
    expect(refusal(provider, undefined)).toBe("taken");
    expect(refusal(provider, "never")).toBe("taken");
    expect(refusal(provider, "prefer")).toBe(asked);
    expect(refusal(provider, "only")).toBe(asked);
  },
);

test("the refusal names the provider, the request and where to go", () => {
  const podhost = providers.filter(({ name }) => name === "podhost");
  const spec = RunSpec.parse({ entrypoint: "train.py", provider: "podhost", gpus: "L4", spot: "only" });
  expect(() => podhost.forEach((provider) => checkCapabilities(spec, provider))).toThrowError(
    /podhost has no spot machines, and the run asks for them \(spot: only\)/,
  );
});
