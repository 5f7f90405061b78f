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
  ["AZURE_STORAGE_CONNECTION_STRING", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=c2VjcmV0LTEyMw==;"],
  ["SQL_CONNSTR", "Server=db;User=me;Secret Word=x"],
  ["ANY", "Endpoint=sb://x.example/;SharedAccessKeyName=all;SharedAccessKey=c2VjcmV0LTEyMw="],
  ["ANY", "Server=db;User Id=me;Password=correcthorse;"],
  ["SLACK_WEBHOOK_URL", "https://chat.example/hooks/me"],
  ["DISCORD_WEBHOOK", "https://chat.example/?to=me"],
  ["ANY", "https://hooks.slack.com/services/T0000/B0000/abcdefgh"],
  ["ANY", "https://discord.com/api/webhooks/1234/abcdefghijkl"],
  ["ANY", "https://discordapp.com/api/v10/webhooks/1234/abcdefghijkl"],
  ["ANY", "https://team.webhook.office.com/webhookb2/0a1b@2c3d/IncomingWebhook/4e5f/6a7b"],
  ["SAS_URL", "https://a.blob.core.windows.net/c?sv=2022&sig=c2VjcmV0LXNpZ25hdHVyZQ%3D&se=2030"],
  ["ANY", "https://s3.example/data.tar?X-Amz-Expires=60&X-Amz-Signature=0123456789abcdef0123"],
  ["ANY", "https://chat.example/spaces?access_token=abc-123-def"],
  ["ANY", "nvapi-aB3dE5gH7jK9mN1pQ3sT5vX"],
  ["ANY", "rpa_ABCDEFGHIJKLMNOPQRSTUVWX01"],
  ["ANY", "AIzaSyA0123456789abcdefghijklmnopqrs_-"],
  ["ANY", "AKIAABCDEFGHIJKLMNOP"],
  ["ANY", "ASIAABCDEFGHIJKLMNOP"],
  ["ANY", "sk-proj-aB3dE5gH7jK9mN1pQ3sT5vX_-0"],
  ["ANY", "sk-ant-api03-aB3dE5gH7jK9mN1pQ3sT5vX-AA"],
  ["ANY", "ghs_aB3dE5gH7jK9mN1pQ3sT5vXz1"],
  ["ANY", "glrt-aB3dE5gH7jK9mN1pQ3sT"],
  ["ANY", "xoxe-1-aB3dE5gH7jK9mN1pQ3sT"],
  ["ANY", "dckr_pat_aB3dE5gH7jK9mN1pQ3sT"],
  ["ANY", "npm_aB3dE5gH7jK9mN1pQ3sTaB3dE5gH7jK9mN1p"],
  ["ANY", "pypi-AgEIcHlwaS5vcmcCJGFiY2RlZg"],
  ["ANY", "local-0123456789abcdef0123456789abcdef01234567"],
  ["ANY", "gsk_aB3dE5gH7jK9mN1pQ3sTaB3dE5gH7jK9"],
  ["ANY", "r8_aB3dE5gH7jK9mN1pQ3sTaB3dE5gH7jK9mN1p"],
  ["ANY", "dapi0123456789abcdef0123456789abcdef"],
  ["ANY", "ya29.aB3dE5gH7jK9mN1pQ3sT5vX"],
  ["ANY", "eyJhcGlfYWRkcmVzcyI6Imh0dHBzOi8vYXBwLmV4YW1wbGUifQ=="],
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
  ["CLOUD_ZONE", "asia-northeast1-a"],
  ["RUN_NAME", "sk-learn-gradient-boosting-baseline-2"],
  ["RUN_NAME", "hf_transformers_baseline_3"],
  ["RUN_NAME", "rpa_invoices_from_2025_and_before"],
  ["RUN_NAME", "local-development-of-the-first-model"],
  ["IMAGE", "npm_config_of_the_second_experiment"],
  ["WEBHOOK_PORT", "8080"],
  ["WEBHOOK_URL", "http://localhost:8080/"],
  ["WEBHOOKS", "disabled"],
  ["CONNECTION_STRING", "sqlite:///runs/optuna.db"],
  ["DATA_URL", "https://data.example/set.tar?version=12&sort_key=loss&key=sets/2025/train12.tar&page_token=2"],
  ["FILTER", "split=train;key=layer12.weight;token=word"],
  ["DATABASE", "Server=db;User=postgres;Password=postgres"],
  ["SIGMA", "0.5"],
  ["SAS_HOME", "/opt/sas/9.4"],
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

it.each([
  ["https://hooks.slack.com/services/T0000/B0000/SECRETxxxxxx", ["T0000/B0000/SECRETxxxxxx"]],
  ["post to https://discord.com/api/webhooks/1234/SECRETxxxxxx now", ["1234/SECRETxxxxxx"]],
  ["a=1;AccountKey=c2VjcmV0LTEyMw==;EndpointSuffix=x", ["c2VjcmV0LTEyMw=="]],
  [
    "https://a.example/c?sv=2022&sig=c2VjcmV0LXNpZ25hdHVyZQ%3D&se=2030",
    ["c2VjcmV0LXNpZ25hdHVyZQ%3D", "c2VjcmV0LXNpZ25hdHVyZQ="],
  ],
  ["Server=db;Password=correcthorse", ["correcthorse"]],
  ["https://hooks.slack.com/services/T0/B0/abcdefghijklmnop", ["T0/B0/abcdefghijklmnop", "abcdefghijklmnop"]],
  ["https://api.telegram.org/bot123:abcdefghijklmnopqrst/sendMessage", ["123:abcdefghijklmnopqrst"]],
])("The secrets in %s are known by themselves", (value, parts) =>
  expect([...new Set(secretParts(value))]).toEqual([value, ...parts]),
);

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
  [["--wandb-key", "0123456789abcdef0123456789abcdef01234567"], "0123456789abcdef0123456789abcdef01234567"],
  [["--key", "k3yk3yk3yk3y99"], "k3yk3yk3yk3y99"],
  [["--encryption-key=Zm9vYmFyYmF6cXV4MTIzNDU2"], "Zm9vYmFyYmF6cXV4MTIzNDU2"],
  [["trainer.hubKey=aB3dE5gH7jK9mN1p"], "aB3dE5gH7jK9mN1p"],
  [["--hubToken", "abc123def456"], "abc123def456"],
  [["--webhook", "https://chat.example/hooks/me"], "https://chat.example/hooks/me"],
  [["--slack-url=https://hooks.slack.com/services/T0/B0/abcdef"], "T0/B0/abcdef"],
  [["--conn", "AccountKey=abc123abc123=="], "abc123abc123=="],
  [["--conn", "AccountName=a;AccountKey=abc123abc123==;x=y"], "abc123abc123=="],
  [["https://s3.example/data.tar?X-Amz-Signature=0123456789abcdef0123"], "0123456789abcdef0123"],
  [["nvapi-aB3dE5gH7jK9mN1pQ3sT5vX"], "nvapi-aB3dE5gH7jK9mN1pQ3sT5vX"],
  [["--config", '{"hub":{"token":"hf_abcdefghijklmnop"},"lr":0.1}'], "hf_abcdefghijklmnop"],
  [["logger={key: sk-proj-aB3dE5gH7jK9mN1pQ3sT5vX, lr: 1}"], "sk-proj-aB3dE5gH7jK9mN1pQ3sT5vX"],
  [["--before", "export HF_TOKEN=hf_abcdefghijklmnop && python prepare.py"], "hf_abcdefghijklmnop"],
  [["--config", '{"wandb_api_key": "0123456789abcdef0123456789abcdef"}'], "0123456789abcdef0123456789abcdef"],
  [["--config", '{"hub":{"token":"0123abcd0123abcd"},"lr":0.1}'], "0123abcd0123abcd"],
  [["--config={'db': {'password': 'correct horse, staple'}}"], "correct horse, staple"],
  [["logger={api_key: 0123abcd0123abcd, mode: online}"], "0123abcd0123abcd"],
  [["--env", "WANDB_API_KEY=0123abcd0123abcd MODE=1"], "0123abcd0123abcd"],
])("The arguments %j hold a secret", (args, secret) => expect(secretArguments(args)).toContain(secret));

it.each([
  [["--epochs", "10", "--lr=0.1"]],
  [["--pad-token", "<|endoftext|>"]],
  [["--eos_token=[END2TEXT]"]],
  [
    [
      "--placeholder_token",
      "cat-toy-v1",
      "--instance-token=ohwx-man1",
      "--initializer_token=toy-2",
      "--eod-token=end-of-1",
    ],
  ],
  [['{"pad_token":"<pad-01>","sort_key":"loss/train_1","tokenizer":"gpt2-medium-1","auth":"none","password":""}']],
  [["--prompt", "the next token: begins with 4 letters, and the password: is not told"]],
  [["--config", '{"token":"${oc.env:HF_TOKEN}","api_key":"$WANDB_API_KEY","max_token": 12345678}']],
  [['{"model":"hf_transformers_baseline_3","run":"sk-learn-run-12","sha":"0123456789abcdef0123456789abcdef01234567"}']],
  [["--max-token", "20480000"]],
  [["--token-length", "512"]],
  [["--key", "layer12.weight"]],
  [["--token", "--verbose1"]],
  [["--token", "/home/me/token1"]],
  [["--token", "env://MY_TOKEN_1"]],
  [["--password-file", "/run/secrets/db1"]],
  [["--auth", "disabled"]],
  [["--key-dim", "64", "--num-key-value-heads=8", "--tokenizer", "gpt2", "--max-tokens", "512", "--sigma", "0.5"]],
  [["--sort-key", "loss", "--primary_key=id", "--monitor-key", "val_loss", "--metric-key=eval/top1_accuracy@5"]],
  [["--image-key", "observation.images.cam_0", "--key=vit_base_patch16_224_in21k", "--text_key", "text2text"]],
  [["--sort-key", "sqrtLossOfEpoch12AndLater", "--key", "/home/me/aB3dE5gH7jK9mN1p", "--key=2025-11-29T10:15:30Z"]],
  [["--cache-key", "d41d8cd98f00b204e9800998ecf8427e", "--public-key=aB3dE5gH7jK9mN1pQ3sT"]],
  [["--monkey", "capuchin", "--webhook-port=8080", "--webhook", "disabled", "--connection-string=sqlite:///runs/1.db"]],
  [["--connection-string", "--lr=0.12345", "--signature-url=gs://models/a?signature=serving_default_of_it"]],
  [
    [
      "https://data.example/set.tar?version=12&sort_key=loss&page_token=2",
      "padToken=<|end_1|>",
      "--name=sk-learn-run-12",
    ],
  ],
])("The arguments %j hold no secret", (args) => expect(secretArguments(args)).toEqual([]));

it("The passwords of addresses in a text are found and masked, and nothing else of it", () => {
  const text =
    "pip install -i https://me:p%40ss@index.example/simple a @ git+https://ghp_0123456789abcdef@github.com/x/y@v1 " +
    "--extra-index-url=https://me:${PASSWORD}@b.example git+ssh://git@github.com/x/y.git https://c.example:8080/a@b";
  expect(addressPasswords(text)).toEqual(["p%40ss", "p@ss", "ghp_0123456789abcdef", "ghp_0123456789abcdef"]);
  const shown = text.replace("p%40ss", "***redacted***").replace("ghp_0123456789abcdef", "***redacted***");
  expect(withoutPasswords(text)).toBe(shown);
});
