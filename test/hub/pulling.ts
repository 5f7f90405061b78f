// A home with pulls from the hub double, with short waits.

import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { systemClock } from "../../src/domain/clock.ts";
import { Pulls, type HubSettings, type PullsOptions } from "../../src/hub/pulls.ts";
import type { HubPull } from "../../src/schemas/hub.ts";
import { HubDouble } from "./double.ts";

/** A small model. */
export const TINY_MODEL = {
  "config.json": '{"model_type":"bert"}\n',
  "model.safetensors": randomBytes(700_000),
  "sub/deep/tokenizer.json": "{}",
  "README.md": "# A model\n",
};

export const PATIENCE = { attemptsMax: 5, delayMsMin: 1, delayMsMax: 5, askedMsMax: 60_000 };

export class Pulling {
  readonly home = realpathSync(mkdtempSync(join(tmpdir(), "svc-hub-")));
  readonly hub = new HubDouble();
  readonly events: { type: string; pull: HubPull }[] = [];
  readonly hints: HubPull[] = [];
  readonly settings: HubSettings = { token: null, cacheDir: null, url: "" };
  pulls!: Pulls;
  #made = 0;

  async open(more: Partial<PullsOptions> = {}): Promise<this> {
    await this.hub.listen();
    this.settings.url = this.hub.url;
    this.again(more);
    return this;
  }

  /** A restarted control plane over the same home; the previous one is left as after a crash. */
  again(more: Partial<PullsOptions> = {}): Pulls {
    this.pulls = new Pulls({
      home: this.home,
      mark: "inst0001",
      clock: systemClock,
      newId: () => `pull${String(++this.#made).padStart(4, "0")}`,
      random: () => 0.5,
      userAgent: "svc",
      settings: () => this.settings,
      requireExtra: () => undefined,
      emit: (type, data) => Promise.resolve(void this.events.push({ type, pull: data["pull"] as HubPull })),
      hint: (pull) => void this.hints.push(pull),
      patience: PATIENCE,
      ...more,
    });
    return this.pulls;
  }

  /** Pulls a model and waits; resolves with its folder. */
  async pull(modelId: string, more: Omit<Parameters<Pulls["pull"]>[0], "model_id"> = {}) {
    return this.pulls.wait(this.pulls.pull({ model_id: modelId, ...more }).id);
  }

  async close(): Promise<void> {
    await this.pulls.stop();
    await this.hub.close();
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** All files below, except svc's own records. */
export const pulledFiles = (path: string): string[] =>
  readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((e) => !e.isDirectory())
    .map((e) => join(e.parentPath, e.name).slice(path.length + 1))
    .filter((name) => !name.startsWith(".cache/"))
    .sort();
export const pullRefusal = async (
  promise: Promise<unknown>,
): Promise<{ code: string; message: string; hint: string }> => {
  const error = await promise.then(
    () => expect.unreachable("it was not refused"),
    (e: unknown) => e as { code: string; message: string; hint: string },
  );
  return { code: error.code, message: error.message, hint: error.hint };
};
