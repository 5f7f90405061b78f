import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { resolveSecret } from "../../src/secrets/resolve.ts";

const home = mkdtempSync(join(tmpdir(), "svc-secrets-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));
const store = (content: unknown): void =>
  writeFileSync(join(home, "credentials.json"), typeof content === "string" ? content : JSON.stringify(content));
beforeEach(() =>
  store({ providers: { podhost: { api_key: "pod-secret" } }, hub: { token: "hub-secret", n: 7, empty: "" } }),
);
const resolve = (reference: string, env: NodeJS.ProcessEnv = {}) => resolveSecret(reference, home, env);

describe("a reference", () => {
  it.each([
    ["env://TOKEN", "from the environment"],
    ["store://providers/podhost/api_key", "pod-secret"],
    ["store://hub/token", "hub-secret"],
  ])("%s is looked up", (reference, value) => {
    expect(resolve(reference, { TOKEN: "from the environment" })).toBe(value);
  });

  it("gives the raw value, with its line breaks and blanks", () => {
    expect(resolve("env://KEY", { KEY: "-----BEGIN\n x \n" })).toBe("-----BEGIN\n x \n");
  });

  it.each([
    ["env://NOT_SET", "the environment variable NOT_SET is not set"],
    ["env://EMPTY", "is not set"],
    ["store://hub/nothing", "no such entry"],
    ["store://hub", "no such entry"],
    ["store://hub/n", "no such entry"],
    ["store://hub/empty", "no such entry"],
    ["store://hub/token/length", "no such entry"],
    ["store://__proto__/toString", "no such entry"],
    ["store://constructor/name", "no such entry"],
    ["file:///etc/passwd", "neither env:// nor store://"],
    ["literal://x", "neither env:// nor store://"],
    ["plain words", "neither env:// nor store://"],
    ["env://", "neither env:// nor store://"],
  ])("%s without a value is refused, by its name and never with a value", (reference, why) => {
    const words = why.replace("neither env:// nor store://", "neither env://NAME nor store://path");
    const error = (() => {
      try {
        return resolve(reference, { EMPTY: "", TOKEN: "secret-value" });
      } catch (e) {
        return e;
      }
    })();
    expect(error).toMatchObject({ code: "secret_not_found", message: expect.stringContaining(words) as string });
    expect((error as Error).message).toContain(reference);
    expect(JSON.stringify(error) + (error as Error).message).not.toMatch(/-secret|secret-value/);
  });

  it.each([
    ["a broken store", "{"],
    ["a store that is a list", "[1]"],
    ["a store that is null", "null"],
    ["a store that is too large to be one", JSON.stringify({ hub: { token: "x".repeat(1024 * 1024) } })],
  ])("into %s is refused like one that is missing", (_, content) => {
    store(content);
    expect(() => resolve("store://hub/token")).toThrowError(
      expect.objectContaining({ code: "secret_not_found" }) as Error,
    );
  });

  it("is refused if no store has such an entry", () => {
    rmSync(join(home, "credentials.json"));
    expect(() => resolve("store://hub/token")).toThrowError(
      expect.objectContaining({ code: "secret_not_found" }) as Error,
    );
  });
});
