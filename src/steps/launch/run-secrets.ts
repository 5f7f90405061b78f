// What a run is given in confidence, and what its output must therefore not show.

import { createHmac } from "node:crypto";
import { join } from "node:path";
import { Redactor } from "../../domain/redaction.ts";
import { secretParts } from "../../domain/secret-names.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import type { KnownSecrets } from "../../secrets/known.ts";
import { secretsOfSpec } from "../../secrets/of-spec.ts";
import { resolveSecret } from "../../secrets/resolve.ts";
import { seal, unseal, type Given } from "../../secrets/sealed.ts";
import { injectedVariables, type Injected } from "../../secrets/services.ts";

export interface RunSecretsParts {
  home: string;
  env: NodeJS.ProcessEnv;
  /** The installation's. */
  key: Buffer;
  spec: (jobId: string) => RunSpec;
  /** What svc knows beside the secrets of the run: its script may have read them elsewhere. */
  known: KnownSecrets;
  /** What the sinks of a run were given. */
  ofSinks: (jobId: string, spec: RunSpec) => readonly string[];
}

export class RunSecrets {
  readonly #parts: RunSecretsParts;

  constructor(parts: RunSecretsParts) {
    this.#parts = parts;
  }

  /** What the records of a run's log begin with. */
  mark = (jobId: string): string => this.#derive("mark", jobId).slice(0, 24);

  rayToken = (jobId: string): string => this.#derive("ray", jobId);

  /** Tells one start of a runner from another. */
  nonce = (jobId: string, node: number, purpose: "run" | "install"): string =>
    this.#derive("nonce", jobId, String(node), purpose);

  /** For all that the run prints: what it was given when it was launched, what the same names say now, and all that svc knows. */
  redactor(jobId: string): Redactor {
    return new Redactor([...this.#values(jobId), this.mark(jobId), this.rayToken(jobId)]);
  }

  /**
   * Variables of hub and tracker, and the values of references. `seal` writes down what was given; it comes before the launch, for what
   * was given can be printed. A launch that is repeated after a restart finds that, though the environment may have changed.
   */
  give(
    jobId: string,
    inPlace: boolean,
  ): { injected: Injected; secret: (reference: string) => string; seal: () => void } {
    const file = this.#file(jobId);
    const { home, env, key } = this.#parts;
    const before = new Map(unseal(file, key));
    const injected = this.#injected(inPlace);
    const given: Given[] = Object.entries(injected.secrets);
    return {
      injected,
      secret: (reference) => {
        const value = before.get(reference) ?? resolveSecret(reference, home, env);
        given.push([reference, value]);
        return value;
      },
      seal: () => seal(file, key, given),
    };
  }

  #values(jobId: string): string[] {
    const { home, env, key, known, ofSinks } = this.#parts;
    const spec = this.#parts.spec(jobId);
    const own = [
      ...Object.values(this.#injected(true).secrets),
      ...unseal(this.#file(jobId), key).map(([, value]) => value),
      ...ofSinks(jobId, spec),
    ].flatMap(secretParts);
    // What a reference names now may be gone: then it is sealed, if the run was given it.
    const values = [...own, ...secretsOfSpec(spec, { home, env })];
    known.remember(values);
    return [...values, ...known.all()];
  }

  /** Nothing where the store cannot be read (any more): that was said when the run was submitted. */
  #injected(inPlace: boolean): Injected {
    const { home, env } = this.#parts;
    try {
      return injectedVariables({ home, env }, { inPlace });
    } catch {
      return { secrets: {}, plain: {} };
    }
  }

  #file(jobId: string): string {
    return join(this.#parts.home, "runs", jobId, "secrets.sealed");
  }

  #derive(...words: string[]): string {
    return createHmac("sha256", this.#parts.key).update(words.join("\0")).digest("hex").slice(0, 32);
  }
}
