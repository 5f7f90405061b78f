// Patterns and texts of strangers that would keep a backtracking matcher busy for hours. Each runs in a separate
// process, which is killed if it gives no answer: nothing else could interrupt it.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";

const SRC = join(import.meta.dirname, "../../src");

/** The value of the expression, as JSON; null if it took too long. */
function ask(file: string, name: string, expression: string): unknown {
  const program = `import { ${name} } from ${JSON.stringify(join(SRC, file))}; console.log(JSON.stringify(await ${expression}));`;
  const done = spawnSync(process.execPath, ["--no-warnings", "--input-type=module", "-e", program], {
    encoding: "utf8",
    timeout: DEADLINE_MS,
    killSignal: "SIGKILL",
  });
  if (done.signal === "SIGKILL") return null;
  if (done.status !== 0) throw new Error(done.stderr);
  return JSON.parse(done.stdout);
}

/** An expression for the value of `value`, with a server at `baseUrl` that answers every call with `text`. */
const servedTo = (text: string, value: string): string => `import("node:http").then(async ({ createServer }) => {
  const server = createServer((_request, response) => response.end(${text}));
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const baseUrl = "http://127.0.0.1:" + server.address().port;
  const outcome = ${value};
  server.closeAllConnections();
  server.close();
  return outcome;
})`;

describe("every pattern ends in bounded time on text from other programs", () => {
  it.each([
    ["*a*a*a*a*a*a*a*a*a*a*a*b", "a".repeat(250)],
    ["**/a/**/a/**/a/**/a/**/a/**/a/b", `${"a/".repeat(1_000)}c`],
    [`${"?*".repeat(100)}b`, "a".repeat(250)],
  ])("the rule %s of an ignore file", (rule, path) => {
    const asked = `[${JSON.stringify(path)}, ${JSON.stringify(`${path.slice(0, -1)}b`)}].map((p) => new IgnoreRules(${JSON.stringify(rule)}).decide(p, true) ?? null)`;
    expect(ask("domain/gitignore.ts", "IgnoreRules", asked)).toEqual([null, true]);
  });

  it("lines of a log, searched for errors", () => {
    const line = `"[rank0]: " + " ".repeat(16_000) + "x"`;
    const looked = `Array.from({ length: 3_000 }, () => errorLine(${line}, false)).filter((found) => found.bad).length`;
    expect(ask("api/log-search.ts", "errorLine", looked)).toBe(0);
  });

  it("rsync's output about a machine", () => {
    const looked = `progressIn("9".repeat(2_000_000) + " ".repeat(2_000_000) + "x 12 5% xfr#3 9")`;
    expect(ask("ssh/tree-rsync.ts", "progressIn", looked)).toEqual({ bytes: 12, files: 3 });
  });

  it("answers of a provider that are not JSON", () => {
    const answer = `"[NaN, " + '"' + String.raw\`\\"\`.repeat(3_000_000)`;
    const outcome = `(await new ProviderHttp({ provider: "market", baseUrl, userAgent: "t" }).call({ method: "GET", path: "/" })).json() ?? "none"`;
    expect(ask("providers/http.ts", "ProviderHttp", servedTo(answer, outcome))).toBe("none");
  });

  it("errors of a provider, searched for an API's retirement", () => {
    const answer = `JSON.stringify({ errors: [{ message: "graphql ".repeat(900_000) }] })`;
    const outcome = `await new PodhostProvider({ credential: () => ({ secret: "k", settings: {} }), baseUrl, now: Date.now, pause: async () => {} })
      .listOwned("svc-", new AbortController().signal).then(() => "listed", (error) => error.code)`;
    expect(ask("providers/podhost/provider.ts", "PodhostProvider", servedTo(answer, outcome))).toBe("provider_error");
  });

  it("a store's refusal", () => {
    const looked = `plainWords("no" + ".".repeat(1_000_000) + "x", [])`;
    expect(ask("sinks/object-store.ts", "plainWords", looked)).toBe("no");
  });

  it("the names that a repository of the hub lists", () => {
    const deep = `firstObjection(Array.from({ length: 100_000 }, (_, i) => "a/".repeat(500) + i))?.why ?? "none"`;
    expect(ask("hub/paths.ts", "firstObjection", deep)).toMatch(/folders deep/);
    const many = `firstObjection(Array.from({ length: 100_000 }, (_, i) => "a/".repeat(31) + i))?.why ?? "none"`;
    expect(ask("hub/paths.ts", "firstObjection", many)).toBe("none");
  }, 150_000);

  it("a machine's list of checkpoints, and its script's announcements", () => {
    const scanned = (files: string, announced: string, final: boolean, answer: string) => `(async () => {
      const { mkdtempSync, rmSync } = process.getBuiltinModule("node:fs");
      const top = mkdtempSync(process.getBuiltinModule("node:os").tmpdir() + "/svc-listed-");
      const announced = new Set(${announced});
      const listing = ${files}.map((path) => ({ path, size: 1, mtimeMs: 1, inode: 1 }));
      const options = { final: ${final}, announced, signal: new AbortController().signal };
      const collector = new CheckpointCollector({ targetDir: top + "/at", now: () => 0 });
      const found = await collector.scan({ listCheckpoints: async () => listing }, options);
      rmSync(top, { recursive: true });
      return ${answer};
    })()`;
    const each = (name: string) => `Array.from({ length: 50_000 }, (_, i) => \`${name}\`)`;
    const unfinished = scanned(
      `[...${each("d${i}/checkpoint-is-incomplete.txt")}, ...${each("e${i}/x.tmp")}]`,
      "[]",
      true,
      "found.skipped.length",
    );
    expect(ask("steps/checkpoints/collector.ts", "CheckpointCollector", unfinished)).toBe(100_000);
    const told = scanned(each("d${i}/x"), each("./gone${i}/"), false, "[found.pending.length, announced.size]");
    expect(ask("steps/checkpoints/collector.ts", "CheckpointCollector", told)).toEqual([50_000, 0]);
  }, 150_000);

  it("patterns of files to pull from the hub", () => {
    const tried = `chooserOf([${JSON.stringify("*a".repeat(40))} + "b"])("a".repeat(1_000))`;
    expect(ask("hub/patterns.ts", "chooserOf", tried)).toBe(false);
  });
});
