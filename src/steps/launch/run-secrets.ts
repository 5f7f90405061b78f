// The secrets that a run receives, and that its output must therefore not show.

import { createHmac } from "node:crypto";
import { Redactor } from "../../domain/redaction.ts";
import { SvcError, systemCode } from "../../errors/index.ts";
import { secretParts } from "../../domain/secret-names.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import type { KnownSecrets } from "../../secrets/known.ts";
import { secretsOfSpec } from "../../secrets/of-spec.ts";
import { resolveSecret } from "../../secrets/resolve.ts";
import { seal, unseal, type Given } from "../../secrets/sealed.ts";
import { injectedVariables, type Injected } from "../../secrets/services.ts";
import { homeLayout } from "../../platform/home-layout.ts";

export interface RunSecretsParts {
  home: string;
  env: NodeJS.ProcessEnv;
  /** The installation's. */
  key: Buffer;
  spec: (jobId: string) => RunSpec;
  /** Further secrets that svc knows: the run's script may have read them elsewhere. */
  known: KnownSecrets;
  /** The secrets of a run's sinks. */
  ofSinks: (jobId: string, spec: RunSpec) => readonly string[];
}

/** Its words are svc's own: they need no masking. */
export class UnreadableSecrets extends SvcError<"home_unusable"> {}

export class RunSecrets {
  readonly #parts: RunSecretsParts;
  /** By job: the sealed values as they were last read or written. A disk that fails later does not hide them. */
  readonly #sealed = new Map<string, readonly Given[]>();

  constructor(parts: RunSecretsParts) {
    this.#parts = parts;
  }

  /** The prefix of the records in a run's log. */
  mark = (jobId: string): string => this.#derive("mark", jobId).slice(0, 24);

  rayToken = (jobId: string): string => this.#derive("ray", jobId);

  /** Distinguishes one start of a runner from another. */
  nonce = (jobId: string, node: number, purpose: "run" | "install", placement: number): string =>
    this.#derive("nonce", jobId, String(node), purpose, ...(placement > 1 ? [String(placement)] : []));

  /**
   * For all output of the run: masks the secrets from its launch, the current values of the same names, and every
   * secret that svc knows. Throws `UnreadableSecrets`: without it no output may be stored.
   */
  redactor(jobId: string): Redactor {
    return new Redactor([...this.#values(jobId), this.mark(jobId), this.rayToken(jobId)]);
  }

  /** For a reader that stays: its redactor also knows what svc learns while the run goes on. */
  secrecy(jobId: string): { readonly mark: string; readonly redactor: Redactor } {
    const { known } = this.#parts;
    const make = (): Redactor => this.redactor(jobId);
    let made: { redactor: Redactor; with: Redactor } | null = null;
    return {
      mark: this.mark(jobId),
      get redactor() {
        const now = known.redactor();
        if (made !== null && made.with === now) return made.redactor;
        try {
          made = { redactor: make(), with: now };
        } catch (e) {
          // The sealed secrets cannot be read now: the former redactor has them.
          if (made === null) throw e;
        }
        return made.redactor;
      },
    };
  }

  /**
   * Variables of hub and tracker, and the values of references. `seal` stores the values, and others that the run finds; it comes before the launch,
   * because the run can print them. A launch that is repeated after a restart finds them, even if the environment has
   * changed.
   */
  give(
    jobId: string,
    inPlace: boolean,
  ): { injected: Injected; secret: (reference: string) => string; seal: (more: readonly string[]) => void } {
    const file = this.#file(jobId);
    const { home, env, key } = this.#parts;
    const before = new Map(this.#unsealed(jobId));
    const injected = this.#injected(inPlace);
    const given: Given[] = Object.entries(injected.secrets);
    return {
      injected,
      secret: (reference) => {
        const value = before.get(reference) ?? resolveSecret(reference, home, env);
        given.push([reference, value]);
        return value;
      },
      seal: (more) => {
        const all = [...given, ...more.map((value): Given => ["the project's files", value])];
        seal(file, key, all);
        const held = this.#unsealed(jobId);
        const isHeld = ([name, value]: Given): boolean => held.some((each) => each[0] === name && each[1] === value);
        this.#sealed.set(jobId, [...held, ...all.filter((each) => !isHeld(each))]);
      },
    };
  }

  /** Call it once a job has ended. */
  forget(jobId: string): void {
    this.#sealed.delete(jobId);
  }

  #unsealed(jobId: string): readonly Given[] {
    const before = this.#sealed.get(jobId);
    try {
      const now = unseal(this.#file(jobId), this.#parts.key);
      // Values are only added: a shorter list is not the whole one.
      if (before !== undefined && before.length > now.length) return before;
      this.#sealed.set(jobId, now);
      return now;
    } catch (cause) {
      if (before !== undefined) return before;
      const why = `holds secrets of the run ${jobId} that cannot be read now (${systemCode(cause)}). svc cannot mask them, so it does not store the run's log until it can read them`;
      throw new UnreadableSecrets("home_unusable", { home: this.#parts.home, why }, { cause, retry: "backoff" });
    }
  }

  #values(jobId: string): string[] {
    const { home, env, known, ofSinks } = this.#parts;
    const spec = this.#parts.spec(jobId);
    const own = [
      ...Object.values(this.#injected(true).secrets),
      ...this.#unsealed(jobId).map(([, value]) => value),
      ...ofSinks(jobId, spec),
    ].flatMap(secretParts);
    // A reference may have lost its value: then the sealed value counts, if the run received one.
    const values = [...own, ...secretsOfSpec(spec, { home, env })];
    known.remember(values);
    return [...values, ...known.all()];
  }

  /** Empty if the store cannot be read (any more): the submission reported that. */
  #injected(inPlace: boolean): Injected {
    const { home, env } = this.#parts;
    try {
      return injectedVariables({ home, env }, { inPlace });
    } catch {
      return { secrets: {}, plain: {} };
    }
  }

  #file(jobId: string): string {
    return homeLayout.runSecrets(this.#parts.home, jobId);
  }

  #derive(...words: string[]): string {
    return createHmac("sha256", this.#parts.key).update(words.join("\0")).digest("hex").slice(0, 32);
  }
}
