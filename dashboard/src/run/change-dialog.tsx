// The dialog that changes the label, the tags and the limits of a run. The control plane judges the values; each refusal is shown at its field.

import { useEffect, useRef, useState, type FormEvent } from "react";
import type { JobRecord, Problem } from "../../../src/schemas/job.ts";
import { tagsIn } from "../../../src/schemas/tag-words.ts";
import { asProblem } from "../api.ts";
import { FieldInput } from "../form/field-input.tsx";
import { sentenceOf } from "../form/problem-words.ts";
import { FIELDS, LABEL, TAGS } from "../form/run-values.ts";
import { fieldOfError, isNumber, type Field } from "../form/schema-fields.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { Modal } from "../parts/modal.tsx";
import { SaveActions } from "../parts/save-actions.tsx";
import { isActive, titleOf } from "../status.ts";
import { store } from "../store.ts";
import { runApi } from "./run-api.ts";

const LIMITS = ["budget_usd", "max_runtime_minutes", "price_cap"] as const;
const limitFields = LIMITS.flatMap((name) => FIELDS.filter((field) => field.name === name));

type Texts = Record<string, string>;

const textsOf = (job: JobRecord): Texts => {
  const limits = LIMITS.map((name) => {
    const value = job.spec[name];
    // 0 minutes mean a run without a limit.
    return [name, typeof value === "number" && value > 0 ? String(value) : ""] as const;
  });
  return { label: job.label ?? "", tags: job.tags.join(", "), ...Object.fromEntries(limits) };
};

export function ChangeDialog({ job, onClose }: { job: JobRecord; onClose: () => void }) {
  const form = useRef<HTMLFormElement>(null);
  const cancel = useRef<HTMLButtonElement>(null);
  const [before] = useState(() => textsOf(job));
  const [texts, setTexts] = useState(before);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [errors, setErrors] = useState<Texts>({});
  const ended = !isActive(job);
  const fields = ended ? [LABEL, TAGS] : [LABEL, TAGS, ...limitFields];
  useEffect(() => form.current?.querySelector("input")?.focus(), []);
  useEffect(() => {
    if (Object.keys(errors).length > 0) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [errors]);

  const save = async () => {
    const changed = fields.filter(({ name }) => texts[name]?.trim() !== before[name]);
    const wrong = changed.filter(({ name, kind }) => kind === "number" && !isNumber(texts[name] ?? ""));
    setProblem(null);
    setErrors(Object.fromEntries(wrong.map(({ name }) => [name, "This must be a number."])));
    if (wrong.length > 0 || busy) return;
    if (changed.length === 0) return onClose();
    setBusy(true);
    try {
      const change = Object.fromEntries(
        changed.map((field) => [field.name, valueOf(field, texts[field.name]?.trim() ?? "")]),
      );
      store.trigger.jobLoaded({ job: await runApi.change(job.id, change) });
      onClose();
    } catch (error) {
      const refused = asProblem(error);
      setErrors(errorsOf(refused));
      setProblem((refused.errors ?? []).length > 0 ? null : refused);
      setBusy(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void save();
  };
  return (
    <Modal titleId="change-title" first={cancel} onClose={onClose}>
      <h2 id="change-title">{ended ? "Change label and tags" : "Change label, tags and limits"}</h2>
      <p>
        <strong>
          <bdi>{titleOf(job)}</bdi>
        </strong>{" "}
        <code>{job.id}</code>
      </p>
      <form ref={form} className="form change-form" noValidate onSubmit={submit}>
        {fields.map((field) => (
          <FieldInput
            key={field.name}
            field={field}
            value={texts[field.name] ?? ""}
            error={errors[field.name]}
            placeholder={field === LABEL || field === TAGS ? "none" : "no limit"}
            onChange={(text) => setTexts((all) => ({ ...all, [field.name]: text }))}
          />
        ))}
        <p className="quiet small-text">
          {ended
            ? "The run has ended, so its limits cannot be changed."
            : "An empty field removes the limit. svc passes the new limits to the guard on the machine at its next connection."}
        </p>
        {problem && <ProblemBanner problem={problem} />}
        <SaveActions cancel={cancel} busy={busy} onCancel={onClose} />
      </form>
    </Modal>
  );
}

const valueOf = (field: Field, text: string): string | string[] | number | null =>
  field === TAGS ? tagsIn(text) : text === "" ? null : field.kind === "number" ? Number(text) : text;

/** A refused change names its reason alone; a wrong value begins with `must`. */
function errorsOf({ code, errors = [] }: Problem): Texts {
  return Object.fromEntries(
    errors.map(({ field, message }) => [
      fieldOfError(field),
      code === "change_refused"
        ? `This cannot be changed: ${message}. Nothing was changed.`
        : sentenceOf(message, field),
    ]),
  );
}
