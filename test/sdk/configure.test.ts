import { resolve } from "node:path";
import { expect, test, vi } from "vitest";
import { Client } from "../../sdk/client.ts";
import { tellConfigured } from "../../sdk/configure.ts";
import { configure, listGpus, SvcError, vramFor } from "../../sdk/index.ts";

test("the local provider needs nothing", () => {
  configure({ registry: {}, use: [] });
  configure();
  configure({ registry: { credentials: [{ cred_id: "me", provider: "local" }] }, use: ["me"] });
});

test.each([
  [{ registri: {} }, "registri"],
  [{ registry: { credential: [] } }, "registry.credential"],
  [{ registry: { credentials: {} } }, "registry.credentials"],
  [{ registry: { credentials: [{ provider: "local" }] } }, "cred_id"],
  [{ registry: { credentials: [{ cred_id: "a", provider: "moon" }] } }, "provider"],
  [{ registry: { credentials: [{ cred_id: "a", provider: "local", secret_ref: "plain" }] } }, "secret_ref"],
  [
    {
      registry: {
        credentials: [
          { cred_id: "a", provider: "local" },
          { cred_id: "a", provider: "local" },
        ],
      },
    },
    "twice",
  ],
  [
    { registry: { credentials: [{ cred_id: "a", provider: "notebook", extra: { port: NaN } }] } },
    "registry.credentials[0].extra.port must be a finite number",
  ],
  [
    {
      registry: {
        notifications: {
          targets: { mail: { kind: "email", host: "h", port: Infinity, from: "a@b.c", to: ["d@e.f"] } },
        },
      },
    },
    "registry.notifications.targets.mail.port must be a finite number",
  ],
  [{ use: ["nobody"] }, "use[0]"],
  [{ registry: { notifications: { target: {} } } }, "registry.notifications.target "],
  [{ registry: { notifications: { targets: { phone: "ntfy" } } } }, "registry.notifications.targets.phone "],
  [{ registry: { notifications: { targets: { phone: { kind: "pager" } } } } }, "targets.phone.kind"],
  [{ registry: { notifications: { targets: { phone: { kind: "ntfy" } } } } }, "targets.phone.topic"],
  [{ registry: { notifications: { targets: { team: { kind: "slack", secret: "x" } } } } }, "targets.team.secret "],
  [
    { registry: { notifications: { targets: { team: { kind: "slack", secret_ref: "x" } } } } },
    "targets.team.secret_ref",
  ],
  [
    { registry: { notifications: { targets: { team: { kind: "slack", url: "x", secret_ref: "env://A" } } } } },
    "team.url",
  ],
  [{ registry: { notifications: { rules: ["waiting 5m", "loss ~ 3"] } } }, "registry.notifications.rules[1]"],
])("configure() refuses %j and names %s", (settings, named) => {
  expect(() => configure(settings as Parameters<typeof configure>[0])).toThrow(SvcError);
  expect(() => configure(settings as Parameters<typeof configure>[0])).toThrow(named);
});

test("two credentials of one provider need a choice", () => {
  const registry = {
    credentials: ["a", "b"].map((cred_id) => ({ cred_id, provider: "market", secret_ref: "store://x" })),
  };
  expect(() => configure({ registry })).toThrow(/registry\.credentials\[1\]\.cred_id is a second credential of market/);
  expect(() => configure({ registry, use: ["a", "b"] })).toThrow(/use\[1\]/);
  configure({ registry, use: ["b"] });
});

test("configure reports a missing variable at once; a raw secret is not shown", () => {
  const of = (secret_ref: string) => ({
    registry: { credentials: [{ cred_id: "c", provider: "market", secret_ref }] },
  });
  expect(() => configure(of("env://SURELY_NOT_SET"))).toThrowError(
    expect.objectContaining({
      code: "credential_missing",
      message: expect.stringContaining("SURELY_NOT_SET") as string,
    }) as Error,
  );
  expect(() => configure(of("sk-very-secret"))).toThrow(/^((?!sk-very).)*$/);
});

test("the registry is sent once: this process's environment, whole paths, and only the entries in use", async () => {
  vi.stubEnv("MY_KEY", "callers-key");
  const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => undefined);
  configure({
    registry: {
      credentials: [
        {
          cred_id: "c",
          provider: "podhost",
          secret_ref: "env://MY_KEY",
          ssh_key_ref: "keys/id",
          extra: { api: "rest" },
        },
        { cred_id: "other", provider: "market", secret_ref: "env://SURELY_NOT_SET" },
      ],
      tracking: { tracker: { secret_ref: "literal://abc", project: "p" } },
      integrations: { hub: { token_ref: "file://hub.token", enabled: true } },
    },
    use: ["c"],
  });
  expect(warn).toHaveBeenCalledOnce();
  expect(String(warn.mock.calls[0]?.[0])).not.toContain("abc");
  const told: unknown[] = [];
  const client = new Client({ baseUrl: "http://127.0.0.1:1" });
  client.configure = (body) => (told.push(body), Promise.resolve({ use: [], kept: [], warnings: [] }));
  await tellConfigured("/home/a", client);
  await tellConfigured("/home/a", client);
  await tellConfigured("/home/b", client);
  expect(told).toHaveLength(2);
  expect(told[0]).toEqual({
    registry: {
      credentials: [
        {
          cred_id: "c",
          provider: "podhost",
          secret_ref: "env://MY_KEY",
          ssh_key_ref: resolve("keys/id"),
          extra: { api: "rest" },
        },
      ],
      tracking: { tracker: { secret_ref: "literal://abc", project: "p" } },
      integrations: { hub: { token_ref: `file://${resolve("hub.token")}`, enabled: true } },
    },
    use: ["c"],
    values: { "credentials.c": "callers-key" },
  });
  vi.unstubAllEnvs();
});

test("targets and rules of notifications are sent with the values of their references, and a missing variable is named at once", async () => {
  vi.stubEnv("HOOK_KEY", "callers-key");
  const hook = { kind: "webhook" as const, url: "https://example.com/hook", secret_ref: "env://HOOK_KEY" };
  const phone = { kind: "ntfy" as const, topic: "long-random-topic" };
  configure({ registry: { notifications: { targets: { hook, phone }, rules: ["loss is nan, stop"] } } });
  const sent: unknown[] = [];
  const client = new Client({ baseUrl: "http://127.0.0.1:1" });
  client.configure = (body) => (sent.push(body), Promise.resolve({ use: [], kept: [], warnings: [] }));
  await tellConfigured("/home/c", client);
  expect(sent).toEqual([
    {
      registry: { credentials: [], notifications: { targets: { hook, phone }, rules: ["loss is nan, stop"] } },
      use: [],
      values: { "notifications.hook": "callers-key" },
    },
  ]);
  vi.unstubAllEnvs();
  expect(() => configure({ registry: { notifications: { targets: { hook } } } })).toThrow(
    /HOOK_KEY.*notifications\.hook/,
  );
});

test("the catalogue needs no control plane", () => {
  expect(vramFor("A100")).toBe(80);
  expect(vramFor("a100")).toBe(80);
  expect(listGpus("notebook").map((g) => g.model)).toEqual(["A100", "V100", "T4"]);
  expect(() => vramFor("Z9000")).toThrow(/has no GPU Z9000/);
});
