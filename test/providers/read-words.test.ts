// Calls that only read: the error quotes the provider's unexpected answer.

import { afterEach, describe, expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import type { Provider } from "../../src/providers/provider.ts";
import { CloudStub, handle as cloudHandle, MACHINE, spec as cloudSpec } from "./cloudvm-stub.ts";
import { PREFIX, spec as marketSpec, Stub, type Reply } from "./market-stub.ts";
import { HANDLE as POD, never, orderOf, podhostStub, type Answer } from "./podhost-stub.ts";

const WORDS = "Account 7 is under review; write to support";
const wordsOf = async (act: Promise<unknown>): Promise<string> => {
  const thrown = await act.then(
    () => "no error",
    (e: unknown) => e,
  );
  return thrown instanceof SvcError ? thrown.message : String(thrown);
};

/** The forms of such messages, each with a status. */
const FORMS: [string, { status: number; json?: unknown; text?: string }][] = [
  ["400 with a message", { status: 400, json: { message: WORDS } }],
  ["403 with a detail", { status: 403, json: { detail: WORDS } }],
  ["422 with a list of details", { status: 422, json: { detail: [{ loc: ["query"], msg: WORDS }] } }],
  ["500 with an error object", { status: 500, json: { error: { code: 500, message: WORDS } } }],
  ["503 in plain text", { status: 503, text: WORDS }],
];

describe.each(["graphql", "rest"])("podhost by %s", (api) => {
  test.each(FORMS)("reports %s", async (_form, { status, json, text }) => {
    const answer: Answer = { status, ...(text === undefined ? { json } : { raw: text }) };
    const stub = await podhostStub(() => answer, { api });
    const { provider } = stub;
    const reads: [string, () => Promise<unknown>][] = [
      ["offers", () => provider.listOffers(orderOf().spec, never)],
      ["own", () => provider.listOwned("svc-", never)],
      ["foreign", () => provider.listForeign("svc-", never)],
      ["account", () => provider.account(never)],
      ["look", () => provider.inspect(POD, never)],
    ];
    for (const [what, read] of reads) expect(await wordsOf(read()), what).toContain(WORDS);
  });

  test("reports why a key is unknown", async () => {
    const stub = await podhostStub(() => ({ status: 401, json: { message: WORDS } }), { api });
    expect(await wordsOf(stub.provider.listOwned("svc-", never))).toContain(WORDS);
  });
});

describe("market", () => {
  let stub: Stub;
  afterEach(() => stub.close());
  test.each(FORMS)("reports %s", async (_form, { status, json, text }) => {
    stub = await new Stub().start();
    const reply: Reply = { status, ...(text === undefined ? { json } : { text }) };
    const provider: Provider = stub.provider();
    const handle = {
      v: 1,
      provider: "market",
      id: "9001",
      name: `${PREFIX}job-n0-1`,
      address: null,
      priceMicro: 1,
    } as const;
    for (const path of [
      "POST /api/v0/bundles/",
      "GET /api/v0/gpu_names/unique/",
      "GET /api/v1/instances/",
      "GET /api/v0/instances/9001/",
      "GET /api/v0/users/current/",
    ])
      stub.routes[path] = () => reply;
    const reads: [string, () => Promise<unknown> | undefined][] = [
      ["offers", () => provider.listOffers(marketSpec(), never)],
      ["own", () => provider.listOwned(PREFIX, never)],
      ["foreign", () => provider.listForeign?.(PREFIX, never)],
      ["account", () => provider.account?.(never)],
      ["look", () => provider.inspect(handle, never)],
    ];
    for (const [what, read] of reads) expect(await wordsOf(Promise.resolve(read())), what).toContain(WORDS);
  });
});

describe("cloudvm", () => {
  let stub: CloudStub;
  afterEach(() => stub.close());
  test.each(FORMS.filter(([form]) => !/details?$/.test(form)))("reports %s", async (_form, { status, text }) => {
    stub = await new CloudStub().listen();
    const error = { error: { code: status, message: WORDS } };
    const answer = { status, ...(text === undefined ? { json: error } : { text }) };
    for (const path of [
      "/aggregated/instances",
      "/regions/africa-south1",
      "",
      `/zones/us-central1-a/instances/${MACHINE}`,
    ])
      stub.on("GET", path, answer);
    const provider = stub.provider({});
    const reads: [string, () => Promise<unknown>][] = [
      ["zones", () => provider.listOffers(cloudSpec({ gpus: "nv-next", region: "africa-south1" }), never)],
      ["own", () => provider.listOwned("svc-abcd1234-", never)],
      ["foreign", () => provider.listForeign("svc-abcd1234-", never)],
      ["account", () => provider.account(never)],
      ["look", () => provider.inspect(cloudHandle(), never)],
    ];
    for (const [what, read] of reads) expect(await wordsOf(read()), what).toContain(WORDS);
  });
});
