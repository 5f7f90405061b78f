// Answers for the pages other than runs, with text that tries to be markup.

import { HOSTILE } from "./hostile.ts";

const unset = { account: null, may: [], balance_usd: null, warnings: [] };

const PULL = {
  id: "p3",
  model_id: "acme/huge",
  revision: "main",
  commit: "fedcba9876543210",
  status: "running",
  phase: "resolving",
  path: null,
  files_total: 12,
  files_done: 3,
  bytes_total: 14_000_000_000,
  bytes_done: 3_200_000_000,
  bytes_per_second: 88_000_000,
  note: null,
  error: null,
  started_at: new Date().toISOString(),
  ended_at: null,
};

/** Answers by the path below /v1/. */
export function fakeAnswers(): Record<string, unknown> {
  const summary = {
    name: "digits-8x8",
    files: 2,
    bytes: 68_000,
    sha256: "7".repeat(64),
    roots: [`/data/${HOSTILE}`],
    follow_links: false,
    created_at: new Date().toISOString(),
    checked_at: new Date().toISOString(),
    left_out: [{ path: HOSTILE, why: "is a pipe" }],
    left_out_count: 1,
  };
  return {
    credentials: {
      providers: {
        podhost: { api_key: { value: "…681e", source: "env", read_only: true } },
        market: { api_key: { value: "…9f21", source: "store", read_only: false } },
      },
      tracker: {},
      hub: {},
      objstore_a: {},
      objstore_b: {},
    },
    "credentials/market": (body: unknown) => ({
      name: "market",
      credential: {},
      check: body === null ? null : { ...unset, account: HOSTILE, balance_usd: 12.5, may: ["rent machines"] },
    }),
    "credentials/market/check": { ...unset, warnings: ["The account has no SSH key."] },
    data: { data: [summary] },
    "data/digits-8x8": {
      data: summary,
      files: [{ path: HOSTILE, size: 12, sha256: "a".repeat(64) }],
      next_cursor: null,
    },
    "data/digits-8x8/verify": {
      name: "digits-8x8",
      ok: false,
      files: 2,
      bytes: 1,
      unreadable: [],
      extra: [],
      read_files: 1,
      read_bytes: 1,
      changed: [{ path: HOSTILE, why: "other content" }],
      missing: ["gone.csv"],
    },
    "notebook/bootstrap": { cell: `print("${HOSTILE}")` },
    plan: (body: {
      spec: {
        provider?: string;
        gpus?: string;
        price_cap?: number;
        candidates?: { provider: string; gpus?: string }[];
      };
    }) => {
      const { provider = "local", gpus = "cpu", price_cap: cap } = body.spec;
      const local = provider === "local";
      const within = cap === undefined || cap >= 1.5;
      return {
        provider,
        gpus,
        nodes: 1,
        project_dir: "/home/me/project",
        offers: local
          ? []
          : [
              {
                id: "1",
                candidate: 0,
                provider,
                spot: false,
                age_seconds: 0,
                price_per_hour_usd: 1.5,
                facts: { gpu: "1 × A100", place: HOSTILE },
                within_cap: within,
                avoided: null,
              },
              {
                id: "2",
                candidate: body.spec.candidates === undefined ? 0 : 1,
                provider,
                spot: true,
                age_seconds: 2,
                price_per_hour_usd: 9,
                facts: {},
                within_cap: cap === undefined || cap >= 9,
                avoided: `its host was unfit 2 days ago: ${HOSTILE}`,
              },
            ],
        offers_total: local ? 0 : 2,
        price_per_hour_usd: local ? 0 : within ? 1.5 : null,
        candidates: (body.spec.candidates ?? [{ provider, gpus }]).map((each, i) => candidateOf(each, i, within)),
        // The first of several has no machine.
        order: body.spec.candidates === undefined ? [0] : body.spec.candidates.map((_, i) => i).slice(1),
        cost_max_usd: null,
        budget_usd: null,
        budget_lasts_seconds: null,
        history: local ? null : { good: 41, of: 43, seconds_to_ssh_p50: 74.2 },
        code: { files: 3, bytes: 2_500_000, sent: !local, largest: [{ path: HOSTILE, size: 2_400_000 }] },
        install: local
          ? { does: "nothing", words: "Nothing is installed: a local run.", steps: [], packages: [], notes: [] }
          : {
              does: "packages",
              words: "Installed from requirements.txt.",
              steps: ["pip install -r requirements.txt", HOSTILE],
              packages: ["numpy", HOSTILE],
              notes: [HOSTILE],
            },
        start: { command: ["python3", "-u", HOSTILE], words: "A Python script.", python: "python3" },
        account: null,
        stops: ["The script ends, well or badly."],
        warnings: local ? [] : ["Without a time limit, it runs until the script ends."],
        refusals: within
          ? []
          : [
              {
                code: "price_cap_exceeded",
                message: "The machine costs more.",
                hint: "Raise `price_cap`.",
                field: null,
              },
            ],
      };
    },
    "hub/models": {
      models: [
        {
          model_id: "acme/tiny",
          path: "/home/me/.svc/models/acme/tiny",
          revision: "0123456789abcdef",
          files: 7,
          bytes: 548_000_000,
          pulled_at: new Date().toISOString(),
          source: "folder",
        },
      ],
    },
    "hub/pulls": {
      pulls: [
        { ...PULL, id: "p2", status: "running", phase: "downloading" },
        {
          ...PULL,
          id: "p1",
          status: "failed",
          error: { code: "hub_gated", message: HOSTILE, hint: "Ask for access." },
        },
      ],
    },
    "hub/pull": { pull: PULL },
    reconcile: {
      dry_run: true,
      replayed: [{ job_id: "r1-digits", ok: false, first_difference_seq: 7 }],
      resumed: ["r1-digits"],
      ending: [{ name: "svc-late-1", id: "8", provider: "podhost", job_id: "r1-digits", price_per_hour_usd: 0.4 }],
      terminated: [{ name: "svc-lost-1", id: "9", provider: "podhost", job_id: null }],
      failed: [],
      unreachable_providers: ["market"],
      foreign: [{ provider: "podhost", id: "77", name: HOSTILE }],
    },
  };
}

/** The first of several candidates has no machine; for a single one the price cap decides. */
function candidateOf(
  { provider, gpus = "cpu" }: { provider: string; gpus?: string },
  candidate: number,
  within: boolean,
) {
  const message = `${provider} has no machine with ${gpus} right now (${HOSTILE}).`;
  return {
    candidate,
    provider,
    gpus,
    region: null,
    spot: "never",
    price_cap: null,
    offers_total: 1,
    price_per_hour_usd: within ? 1.5 : null,
    refusal: candidate === 0 ? { code: "no_offer", message, hint: "Wait for one.", field: null } : null,
    answer_seconds: 0.4,
    expected_start: { seconds: 94, ssh_seconds: 70, runs: 7 },
    history: { good: 41, of: 43, seconds_to_ssh_p50: 74 },
  };
}
