import { expect, it } from "vitest";
import {
  addressPasswords,
  holdsSecret,
  secretArguments,
  secretParts,
  withoutPasswords,
  withoutSecrets,
} from "../../src/domain/secret-names.ts";
import { CREDENTIAL_FIELDS } from "../../src/schemas/credential-blocks.ts";

it.each([
  ["API_KEY", "x"],
  ["MY_TOKEN", "x"],
  ["PGPASSWORD", "x"],
  ["DB_PASS", "x"],
  ["SENTRY_DSN", "x"],
  ["github_pat", "x"],
  ["DATABASE_URL", "postgres://me:pw@db.example/x"],
  ["ANY", "hf_abcdefghijklmnop"],
  ["ANY", "-----BEGIN OPENSSH PRIVATE KEY-----\nx"],
  ["ANY", "eyJhbGciOiJIUzI1.eyJzdWIiOiIx.sig"],
])("%s=%s is a secret", (name, value) => expect(holdsSecret(name, value)).toBe(true));

it.each([
  ["EPOCHS", "3"],
  ["TOKENIZERS_PARALLELISM", "false"],
  ["MAX_TOKENS", "512"],
  ["MONKEY", "x"],
  ["COMPASS", "north"],
  ["ENDPOINT", "https://example.org:8443/a@b"],
  ["API_KEY", "env://OTHER"],
  ["API_KEY", "store://hub/token"],
])("%s=%s is not a secret", (name, value) => expect(holdsSecret(name, value)).toBe(false));

it("parts of a secret are secrets by themselves", () => {
  expect(secretParts("plain")).toEqual(["plain"]);
  expect(secretParts("postgres://me:p%40w@db/x")).toEqual(["postgres://me:p%40w@db/x", "p%40w", "p@w"]);
  for (const usual of ["test:test", "postgres:Postgres", "optuna:optuna", "me:123456", "admin:minioadmin"])
    expect(secretParts(`postgres://${usual}@db/x`)).toEqual([`postgres://${usual}@db/x`]);
  const key = JSON.stringify({ type: "service_account", private_key: "line-1\nline-2", client_id: "7" });
  expect(secretParts(key)).toEqual([key, "line-1\nline-2"]);
  expect(secretParts("{not json")).toEqual(["{not json"]);
});

it("other programs get no variable with a secret of a credential, and no private key by any name", () => {
  const secrets = Object.values(CREDENTIAL_FIELDS).flatMap((fields) => fields.filter((field) => field.secret));
  const given = secrets.flatMap((field) => field.variables).map((name) => [name, "x"]);
  expect(given).toContainEqual(["CLOUDVM_SERVICE_ACCOUNT_JSON", "x"]);
  const env = { MINE: '{"private_key": "-----BEGIN PRIVATE KEY-----"}', PATH: "/bin", SSH_AUTH_SOCK: "/run/agent" };
  const kept = { PATH: "/bin", SSH_AUTH_SOCK: "/run/agent" };
  expect(withoutSecrets({ ...(Object.fromEntries(given) as Record<string, string>), ...env })).toEqual(kept);
});

it.each([
  [["--token=abc123def456"], "abc123def456"],
  [["--token", "abc123def456"], "abc123def456"],
  [["-api-key", "abc123def456"], "abc123def456"],
  [["--wandb.api_key=0123456789abcdef"], "0123456789abcdef"],
  [["DB_PASSWORD=hunter2!!"], "hunter2!!"],
  [["trainer.hub_token=xYz-123-abc"], "xYz-123-abc"],
  [["hf_abcdefghijklmnop"], "hf_abcdefghijklmnop"],
  [["--header", "Authorization: Bearer abc123def456"], "abc123def456"],
])("The arguments %j hold a secret", (args, secret) => expect(secretArguments(args)).toContain(secret));

it.each([
  [["--epochs", "10", "--lr=0.1"]],
  [["--pad-token", "<|endoftext|>"]],
  [["--eos_token=[END2TEXT]"]],
  [["--max-token", "20480000"]],
  [["--token-length", "512"]],
  [["--key", "layer12.weight"]],
  [["--token", "--verbose1"]],
  [["--token", "/home/me/token1"]],
  [["--token", "env://MY_TOKEN_1"]],
  [["--password-file", "/run/secrets/db1"]],
  [["--auth", "disabled"]],
])("The arguments %j hold no secret", (args) => expect(secretArguments(args)).toEqual([]));

it("The passwords of addresses in a text are found and masked, and nothing else of it", () => {
  const text =
    "pip install -i https://me:p%40ss@index.example/simple a @ git+https://ghp_0123456789abcdef@github.com/x/y@v1 " +
    "--extra-index-url=https://me:${PASSWORD}@b.example git+ssh://git@github.com/x/y.git https://c.example:8080/a@b";
  expect(addressPasswords(text)).toEqual(["p%40ss", "p@ss", "ghp_0123456789abcdef", "ghp_0123456789abcdef"]);
  const shown = text.replace("p%40ss", "***redacted***").replace("ghp_0123456789abcdef", "***redacted***");
  expect(withoutPasswords(text)).toBe(shown);
});
