// The targets of a home: those that configure() set, then those of the API. The notifier and the API read them here.
//
// T1. A target that configure() set counts as a whole, also before one of the home with the same name.
// T2. Secrets are resolved for each message, so that a correction counts at once; every resolved secret is masked from then on.
//     Those of all targets are masked from the start on: the log of a run may hold one before the first message is sent.
// T3. A secret that a caller sends is kept in credentials.json, and the target holds its reference alone.

import { REDACTED } from "../domain/redaction.ts";
import { SvcError } from "../errors/index.ts";
import { needsSecret } from "../schemas/notify-names.ts";
import { NotifyTarget, targetProblem, type NotifyTargetBody, type ShownTarget } from "../schemas/notify.ts";
import { configuredRules, configuredTargets, configuredTargetSecret } from "../secrets/registry.ts";
import { resolveOwnersSecret } from "../secrets/resolve.ts";
import { changeStore, isRecord, UnusableFile, type Exclusively } from "../secrets/store-file.ts";
import type { NotifyStore } from "../store/notify-store.ts";
import { maskedField, secretsIn, unmasked } from "./target-secrets.ts";
import type { readTargetStates } from "../store/notify-reads.ts";

export interface NamedTarget {
  name: string;
  target: NotifyTarget;
  from: "home" | "registry";
}

export interface TargetPlaces {
  home: string;
  env: NodeJS.ProcessEnv;
  rows: NotifyStore;
  /** Masks these values in all output from now on. */
  remember: (secrets: readonly string[]) => void;
  exclusively: Exclusively;
  report: (line: string) => void;
}

type SecretTarget = Exclude<NotifyTarget, { kind: "desktop" | "command" }>;

const wrong = (field: string, message: string): SvcError =>
  new SvcError(
    "invalid_request",
    { summary: `The target is not valid: ${field} ${message}.` },
    { errors: [{ field, message }] },
  );

/** The block of credentials.json that holds secrets of targets. */
const BLOCK = "notify";

export class Targets {
  readonly #o: TargetPlaces;
  #reported = "";

  constructor(places: TargetPlaces) {
    this.#o = places;
  }

  /** T1. An unreadable registry has no targets; the reason is reported once. */
  list(): NamedTarget[] {
    const configured = this.#configured();
    const own = this.#o.rows.targets().flatMap(({ name, settings }): NamedTarget[] => {
      const read = NotifyTarget.safeParse(JSON.parse(settings));
      return read.success && !Object.hasOwn(configured, name) ? [{ name, target: read.data, from: "home" }] : [];
    });
    const registry = Object.entries(configured).map(([name, target]): NamedTarget => ({
      name,
      target,
      from: "registry",
    }));
    return [...registry, ...own].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  get(name: string): NamedTarget | undefined {
    return this.list().find((one) => one.name === name);
  }

  /** T2. A secret that cannot be resolved is reported when a message needs it. */
  maskSecrets(): void {
    for (const named of this.list())
      try {
        this.secretOf(named);
      } catch (e) {
        if (!(e instanceof SvcError)) throw e;
      }
  }

  /** The rules for all runs that configure() set. */
  configuredRules(): readonly string[] {
    return this.#readable(() => configuredRules(this.#o.home), []);
  }

  #configured(): Readonly<Record<string, NotifyTarget>> {
    return this.#readable(() => configuredTargets(this.#o.home), {});
  }

  #readable<T>(read: () => T, none: T): T {
    try {
      return read();
    } catch (e) {
      if (!(e instanceof UnusableFile)) throw e;
      if (this.#reported !== e.message) this.#o.report(`Notifications of configure() cannot be read: ${e.message}`);
      this.#reported = e.message;
      return none;
    }
  }

  /** T2. Null if the target names none. Throws `notify_secret`. */
  secretOf({ name, target, from }: NamedTarget): string | null {
    const reference = "secret_ref" in target ? target.secret_ref : undefined;
    const { home, env } = this.#o;
    if (reference === undefined) {
      this.#o.remember(secretsIn(target, null));
      return null;
    }
    try {
      const found =
        from === "registry"
          ? configuredTargetSecret(name, reference, { home, env })
          : resolveOwnersSecret(reference, home, env);
      if (found === undefined) throw new UnusableFile(`${reference} was not set where configure() was called`);
      this.#o.remember(secretsIn(target, found));
      return found;
    } catch (e) {
      if (!(e instanceof SvcError) && !(e instanceof UnusableFile)) throw e;
      throw new SvcError("notify_secret", { target: name, why: e.message.replace(/\.$/, "") }, { cause: e });
    }
  }

  /** T3. Checks the body and returns the target to store. Throws `notify_read_only`, `notify_secret`, `invalid_request`. */
  taken(name: string, { target: given, secret }: NotifyTargetBody): NotifyTarget {
    if (Object.hasOwn(this.#configured(), name)) throw new SvcError("notify_read_only", { name });
    const target = unmasked(given, this.#storedTarget(name));
    const masked = maskedField(target);
    if (masked !== null)
      throw wrong(`target.${masked}`, `holds ${REDACTED} where a secret stood; write it there again`);
    const taken =
      target.kind === "desktop" || target.kind === "command" ? target : this.#withSecret(name, target, secret);
    this.#o.remember(secretsIn(taken, null));
    return taken;
  }

  #withSecret(name: string, target: SecretTarget, secret: string | undefined): NotifyTarget {
    const literal = target.secret_ref?.startsWith("literal://") ? target.secret_ref.slice(10) : undefined;
    const given = secret ?? literal;
    const before = this.#storedTarget(name);
    // A change of other settings keeps the secret.
    const kept =
      before?.kind === target.kind && "secret_ref" in before && target.secret_ref === undefined
        ? before.secret_ref
        : undefined;
    const stored: NotifyTarget =
      given === undefined
        ? kept === undefined
          ? target
          : { ...target, secret_ref: kept }
        : { ...target, secret_ref: `store://${BLOCK}/${name}/secret` };
    this.#check(name, stored, given);
    if (given !== undefined) {
      this.#keep(name, given);
      this.#o.remember(secretsIn(stored, given));
    }
    return stored;
  }

  #storedTarget(name: string): NotifyTarget | undefined {
    const row = this.#o.rows.target(name);
    return row === undefined ? undefined : NotifyTarget.safeParse(JSON.parse(row.settings)).data;
  }

  #check(name: string, target: NotifyTarget, given: string | undefined): void {
    const needed = needsSecret(target.kind);
    const reference = "secret_ref" in target ? target.secret_ref : undefined;
    if (needed && reference === undefined)
      throw wrong("secret", `is required: the address of the ${target.kind} webhook`);
    const problem = targetProblem(target, reference !== undefined);
    if (problem !== null) throw wrong(`target.${problem.field}`, problem.message);
    const value = given ?? (reference ? this.secretOf({ name, target, from: "home" }) : null);
    if (needed && value !== null && !/^https?:\/\/./.test(value))
      throw wrong("secret", `must be the address of a ${target.kind} webhook, beginning with https://`);
  }

  #keep(name: string, secret: string | null): void {
    const { home, exclusively } = this.#o;
    try {
      changeStore(home, exclusively, (store) => {
        const block = Object.entries(isRecord(store[BLOCK]) ? store[BLOCK] : {}).filter(([key]) => key !== name);
        const { [BLOCK]: _, ...rest } = store;
        const next = secret === null ? block : [...block, [name, { secret }]];
        return next.length === 0 ? rest : { ...rest, [BLOCK]: Object.fromEntries(next) };
      });
    } catch (e) {
      if (e instanceof UnusableFile) throw new SvcError("credentials_unusable", { why: e.message }, { cause: e });
      throw e;
    }
  }

  /** Deletes the stored secret of a target. */
  forget(name: string): void {
    this.#keep(name, null);
  }

  shown({ name, target, from }: NamedTarget, states: ReturnType<typeof readTargetStates>): ShownTarget {
    const state = states.get(name);
    const reference = "secret_ref" in target ? target.secret_ref : undefined;
    // A literal is sealed when it arrives; a reference holds no secret.
    const left = Object.entries(target).filter(
      ([key, value]) => key !== "kind" && !(key === "secret_ref" && String(value).startsWith("literal://")),
    );
    return {
      name,
      kind: target.kind,
      settings: Object.fromEntries(left),
      from,
      has_secret: reference !== undefined,
      waiting: state?.waiting ?? 0,
      last_sent_at: state?.last_sent_at ?? null,
      error: state?.error ?? null,
      next_attempt_at: state?.next_attempt_at ?? null,
    };
  }
}
