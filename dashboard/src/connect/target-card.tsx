// One card of the Connect page for a notification target: its fields, what it receives, a test, and its end. A secret goes to the
// server when it is saved and is never read back.

import { useState, type FormEvent } from "react";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import type { Problem } from "../../../src/schemas/job.ts";
import type { ShownTarget } from "../../../src/schemas/notify.ts";
import {
  ALWAYS_SENT,
  needsSecret,
  NOTICE_KINDS,
  TARGET_KINDS,
  type TargetKind,
} from "../../../src/schemas/notify-names.ts";
import { asProblem } from "../api.ts";
import { FieldInput } from "../form/field-input.tsx";
import type { Field } from "../form/schema-fields.ts";
import { byField, sentenceOf } from "../form/problem-words.ts";
import { NOTICE_WORDS } from "../notify/notice-words.ts";
import { notifyApi } from "../notify/notify-api.ts";
import { moment } from "../format.ts";
import { AskFirst } from "../parts/ask-first.tsx";
import { Banner, ProblemBanner } from "../parts/banner.tsx";
import { withCode } from "../parts/with-code.tsx";
import {
  allEvents,
  eventsOf,
  isRare,
  takesSecret,
  targetBody,
  targetFields,
  textsOf,
  type TargetTexts,
} from "./target-fields.ts";

const KIND_WORDS: Readonly<Record<TargetKind, { about: string; secret: string }>> = {
  ntfy: { about: "Push messages on a phone, by ntfy.sh or a server of your own", secret: "Access token" },
  slack: { about: "A Slack channel", secret: "Address of the incoming webhook" },
  discord: { about: "A Discord channel", secret: "Address of the channel’s webhook" },
  webhook: { about: "Any address that takes JSON by POST", secret: "Key that signs the messages" },
  email: { about: "E-mail by your own SMTP account", secret: "Password of the mail account" },
  desktop: { about: "The desktop of this computer", secret: "" },
  command: { about: "A program on this computer", secret: "" },
};

interface TargetCardProps {
  /** Null for the card that adds one. */
  target: ShownTarget | null;
  open: boolean;
  onToggle: (open: boolean) => void;
  /** Called after a target was saved or removed. */
  onChange: () => void;
}

interface Outcome {
  /** The name under which it was saved just now; empty if it was not. */
  saved: string;
  /** How long the target took to accept a test message. */
  seconds: number | null;
}

export function TargetCard({ target, open, onToggle, onChange }: TargetCardProps) {
  const id = target === null ? "notify-new" : `target-${target.name}`;
  return (
    <details className="panel connect" id={id} open={open} onToggle={(event) => onToggle(event.currentTarget.open)}>
      <summary>
        <span className="connect-name">
          {target === null ? (
            <strong>Add a target</strong>
          ) : (
            <>
              <strong>{target.name}</strong> <span className="quiet">{target.kind}</span>
            </>
          )}
        </span>
        {target && <State target={target} />}
      </summary>
      <TargetForm key={target?.kind} owner={id} target={target} onChange={onChange} />
    </details>
  );
}

function State({ target: { error, last_sent_at: sent, waiting } }: { target: ShownTarget }) {
  if (error !== null)
    return <span className="pill pill-failed">{waiting > 0 ? `failing, ${waiting} waiting` : "failed"}</span>;
  return (
    <span className={sent === null ? "pill" : "pill pill-succeeded"}>
      {sent === null ? "nothing sent yet" : `last sent ${moment(sent)}`}
    </span>
  );
}

function useTargetForm({ target, onChange }: Pick<TargetCardProps, "target" | "onChange">) {
  const [kind, setKind] = useState<TargetKind>(target?.kind ?? "ntfy");
  const [name, setName] = useState(target?.name ?? "");
  const [texts, setTexts] = useState<TargetTexts>(() => textsOf(kind, target?.settings ?? {}));
  const [secret, setSecret] = useState("");
  const [events, setEvents] = useState(() => (target ? eventsOf(target.settings) : allEvents()));
  const [busy, setBusy] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const work = async (word: string, act: () => Promise<Outcome | null>) => {
    if (busy !== "") return;
    setBusy(word);
    setProblem(null);
    setOutcome(null);
    try {
      setOutcome(await act());
    } catch (error) {
      setProblem(asProblem(error));
    }
    setBusy("");
  };
  const save = (isTested: boolean) =>
    work(isTested ? "Sending…" : "Saving…", async () => {
      const saved = await notifyApi.save(name.trim() || "-", {
        target: targetBody(kind, texts, events),
        ...(secret === "" ? {} : { secret }),
      });
      setSecret("");
      if (target === null) {
        setName("");
        setTexts(textsOf(kind, {}));
      }
      onChange();
      setOutcome({ saved: saved.name, seconds: null });
      return { saved: saved.name, seconds: isTested ? (await notifyApi.test(saved.name)).seconds : null };
    });
  const test = () =>
    work("Sending…", async () => ({ saved: "", seconds: (await notifyApi.test(target?.name ?? "")).seconds }));
  const remove = () =>
    work("Removing…", async () => {
      await notifyApi.remove(target?.name ?? "");
      onChange();
      return null;
    });
  const chooseKind = (next: TargetKind) => {
    setKind(next);
    setTexts(textsOf(next, {}));
    // The secret of one service must not reach another one.
    setSecret("");
    setProblem(null);
  };
  const setText = (field: string, text: string) => setTexts((before) => ({ ...before, [field]: text }));
  const shown = { kind, name, texts, secret, events, busy, problem, outcome };
  return { ...shown, setName, setText, setSecret, setEvents, chooseKind, save, test, remove };
}

function TargetForm({ owner, target, onChange }: Pick<TargetCardProps, "target" | "onChange"> & { owner: string }) {
  const form = useTargetForm({ target, onChange });
  const { kind, busy, problem, outcome } = form;
  const readOnly = target?.from === "registry";
  const { errors, isAtFields } = errorsOf(problem);
  const input = (field: Field) => (
    <FieldInput
      key={field.name}
      field={{ ...field, name: `${owner}-${field.name}` }}
      value={form.texts[field.name] ?? ""}
      error={errors[field.name]}
      onChange={(text) => form.setText(field.name, text)}
    />
  );
  const fields = targetFields(kind);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void form.save(true);
  };
  if (readOnly)
    return (
      <>
        <p className="quiet prose">Set by configure(), and changed where that is called.</p>
        <div className="actions">
          <button type="button" className="button" aria-disabled={busy !== ""} onClick={() => void form.test()}>
            {busy || "Send a test"}
          </button>
        </div>
        <Result problem={problem} outcome={outcome} />
      </>
    );
  return (
    <form className="form" noValidate onSubmit={submit}>
      {target?.error && (
        <Banner tone="warn" title="The newest message did not arrive">
          <p>
            <bdi>{inOrder(target.error)}</bdi>
            {target.next_attempt_at !== null && ` svc tries again at ${moment(target.next_attempt_at)}.`}
          </p>
        </Banner>
      )}
      <div className="fields">
        {target === null && (
          <>
            <div className="field">
              <label htmlFor={`${owner}-kind`}>Kind</label>
              <select
                id={`${owner}-kind`}
                value={kind}
                aria-describedby={`${owner}-kind-help`}
                onChange={(event) =>
                  form.chooseKind(TARGET_KINDS.find((each) => each === event.target.value) ?? "ntfy")
                }
              >
                {TARGET_KINDS.map((each) => (
                  <option key={each}>{each}</option>
                ))}
              </select>
              <p className="help" id={`${owner}-kind-help`}>
                {KIND_WORDS[kind].about}.
              </p>
            </div>
            <FieldInput
              field={{ ...NAME, name: `${owner}-name` }}
              value={form.name}
              error={errors["name"]}
              placeholder="phone"
              onChange={form.setName}
            />
          </>
        )}
        {fields.filter((field) => !isRare(field)).map(input)}
        {takesSecret(kind) && (
          <SecretInput
            id={`${owner}-secret`}
            title={KIND_WORDS[kind].secret}
            isRequired={needsSecret(kind)}
            isSet={target?.has_secret ?? false}
            text={form.secret}
            error={errors["secret"]}
            onChange={form.setSecret}
          />
        )}
      </div>
      <EventChoice events={form.events} onChange={form.setEvents} />
      {fields.some(isRare) && (
        <details
          className="more-fields"
          open={fields.some((field) => isRare(field) && errors[field.name]) || undefined}
        >
          <summary>More settings</summary>
          <div className="fields">{fields.filter(isRare).map(input)}</div>
        </details>
      )}
      <div className="actions">
        <button type="submit" className="button primary" aria-disabled={busy !== ""}>
          {busy || "Save and send a test"}
        </button>
        <button type="button" className="button" aria-disabled={busy !== ""} onClick={() => void form.save(false)}>
          Save
        </button>
        {target && (
          <>
            <button type="button" className="button" aria-disabled={busy !== ""} onClick={() => void form.test()}>
              Send a test
            </button>
            <AskFirst ask="Remove…" yes="Remove the target" busy={busy !== ""} onYes={() => void form.remove()} />
          </>
        )}
      </div>
      <Result problem={isAtFields ? null : problem} outcome={outcome} />
    </form>
  );
}

function Result({ problem, outcome }: { problem: Problem | null; outcome: Outcome | null }) {
  return (
    <div aria-live="polite">
      {outcome && <Banner tone="info" title={outcomeWords(outcome)} />}
      {problem && <ProblemBanner problem={problem} />}
    </div>
  );
}

function outcomeWords({ saved, seconds }: Outcome): string {
  const first = saved === "" ? "" : `Saved as ${saved}. `;
  return seconds === null
    ? first
    : `${first}The target accepted a test message after ${seconds.toFixed(1)} s: look whether it has arrived.`;
}

const NAME: Field = {
  name: "name",
  kind: "text",
  title: "Name",
  description: "Your choice: lower-case letters, digits, - and _.",
  unit: "",
  required: true,
  choices: [],
  initial: "",
};

/** Errors by field, and whether all of them are about a field that is shown. */
function errorsOf(problem: Problem | null): { errors: Record<string, string>; isAtFields: boolean } {
  const all = (problem?.errors ?? []).map(({ field, message }) => {
    const path = field.replace(/^target\./, "");
    return { field: path, message: sentenceOf(message, path) };
  });
  return { errors: byField(all), isAtFields: all.length > 0 };
}

interface SecretInputProps {
  id: string;
  title: string;
  isRequired: boolean;
  isSet: boolean;
  text: string;
  error: string | undefined;
  onChange: (text: string) => void;
}

function SecretInput({ id, title, isRequired, isSet, text, error, onChange }: SecretInputProps) {
  return (
    <div className="field">
      <label htmlFor={id}>
        {title}
        <span className="unit"> {isSet ? "set" : isRequired ? "required" : "if it needs one"}</span>
      </label>
      <input
        id={id}
        type="password"
        autoComplete="off"
        spellCheck={false}
        aria-describedby={`${id}-help`}
        aria-invalid={error ? true : undefined}
        value={text}
        onChange={(event) => onChange(event.target.value)}
      />
      <p className="help" id={`${id}-help`}>
        {withCode(isSet ? "Leave it empty to keep it. " : "")}
        {withCode(
          "Kept in `credentials.json` on this computer and never shown; or give a reference under More settings.",
        )}
      </p>
      {error && <p className="field-error">{error}</p>}
    </div>
  );
}

interface EventChoiceProps {
  events: ReadonlySet<string>;
  onChange: (events: ReadonlySet<string>) => void;
}

function EventChoice({ events, onChange }: EventChoiceProps) {
  const isAll = NOTICE_KINDS.every((kind) => events.has(kind));
  const toggle = (kind: string, on: boolean) => {
    const next = new Set(events);
    if (on) next.add(kind);
    else next.delete(kind);
    onChange(next);
  };
  return (
    <details className="more-fields">
      <summary>
        Receives{" "}
        {isAll
          ? "everything"
          : `${NOTICE_KINDS.filter((kind) => events.has(kind)).length} of ${NOTICE_KINDS.length} kinds of notices`}
      </summary>
      <fieldset className="event-choice">
        <legend className="hidden">What this target receives</legend>
        {NOTICE_KINDS.map((kind) => {
          const isAlways = ALWAYS_SENT.includes(kind);
          return (
            <label key={kind} title={isAlways ? "Every target receives this." : undefined}>
              <input
                type="checkbox"
                checked={isAlways || events.has(kind)}
                disabled={isAlways}
                onChange={(event) => toggle(kind, event.target.checked)}
              />
              {NOTICE_WORDS[kind]}
            </label>
          );
        })}
      </fieldset>
    </details>
  );
}
