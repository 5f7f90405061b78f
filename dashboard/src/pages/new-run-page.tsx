import { useEffect, useMemo, useRef, useState, type FormEvent, type ReactNode } from "react";
import schema from "virtual:submit-schema";
import type { Gpu, JobRecord, Problem, ProviderInfo } from "../../../src/schemas/job.ts";
import { api, asProblem } from "../api.ts";
import { newKey } from "../form/new-key.ts";
import { FieldInput } from "../form/field-input.tsx";
import { fieldOfError, fieldsOf, fromText, toText, type Field } from "../form/schema-fields.ts";
import { Banner, ProblemBanner } from "../parts/banner.tsx";
import { useTitle } from "../parts/title.ts";
import { Link, navigate, runPath } from "../router.tsx";
import { titleOf } from "../status.ts";
import { store } from "../store.ts";

const LABEL: Field = {
  name: "label",
  kind: "text",
  title: "Label",
  description: "A name for people.",
  unit: "",
  required: false,
  choices: [],
  initial: "",
};
const FIELDS = fieldsOf(schema);
const MAIN = ["entrypoint", "args", "project_dir", "provider", "gpus", "price_cap"];
const ADVANCED = FIELDS.filter((field) => !MAIN.includes(field.name));
const field = (name: string) => FIELDS.find((each) => each.name === name);

type Values = Record<string, string>;

const initialValues = (query: URLSearchParams): Values =>
  Object.fromEntries([LABEL, ...FIELDS].map((each) => [each.name, query.get(each.name) ?? each.initial]));

/** What an earlier run was asked to do. Masked secrets cannot be asked for again and are left out. */
const valuesOf = (job: JobRecord): Values => ({
  label: job.label ?? "",
  ...Object.fromEntries(
    FIELDS.map((each) => [
      each.name,
      job.spec[each.name] === undefined ? each.initial : toText(each.kind, job.spec[each.name]),
    ]),
  ),
});

export function NewRunPage({ query }: { query: URLSearchParams }) {
  useTitle("New run");
  const from = query.get("from");
  const [source, setSource] = useState<JobRecord | Problem | null>(null);
  useEffect(() => {
    if (from === null) return;
    let gone = false;
    api.job(from).then(
      (job) => !gone && setSource(job),
      (error: unknown) => !gone && setSource(asProblem(error)),
    );
    return () => void (gone = true);
  }, [from]);
  if (from !== null && source === null) return <p className="page quiet pad">Reading the run…</p>;
  const job = source !== null && "id" in source ? source : null;
  return (
    <div className="page page-form">
      <div className="page-head">
        <h1>New run</h1>
        {job && (
          <p className="quiet">
            From{" "}
            <Link href={runPath(job.id)}>
              <bdi>{titleOf(job)}</bdi>
            </Link>
          </p>
        )}
      </div>
      {source !== null && !("id" in source) && <ProblemBanner problem={source} />}
      <RunForm initial={job ? valuesOf(job) : initialValues(query)} />
    </div>
  );
}

function RunForm({ initial }: { initial: Values }) {
  const [values, setValues] = useState(initial);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  /** One key per form: a second click or a repeated request does not start a second run. */
  const key = useRef(newKey());
  const sending = useRef(false);
  const { providers, gpus } = useChoices();
  const errors = useMemo(() => errorsByField(problem), [problem]);
  const advancedErrors = ADVANCED.some((each) => errors[each.name]);
  const provider = providers.find((each) => each.name === values["provider"]);

  useEffect(() => {
    if (problem) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [problem]);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (sending.current) return;
    sending.current = true;
    setBusy(true);
    setProblem(null);
    try {
      const job = await api.submit(bodyOf(values), key.current);
      store.trigger.jobLoaded({ job });
      navigate(runPath(job.id));
    } catch (error) {
      const refused = asProblem(error);
      // Refused: nothing was started under this key. Without an answer the key stays, for the run may have been started.
      if (refused.status >= 400 && refused.status < 500) key.current = newKey();
      setProblem(refused);
      setBusy(false);
    } finally {
      sending.current = false;
    }
  };
  const input = (
    each: Field | undefined,
    extra: { suggestions?: string; placeholder?: string; notes?: Record<string, string>; wide?: boolean } = {},
  ) =>
    each && (
      <FieldInput
        key={each.name}
        field={each}
        value={values[each.name] ?? ""}
        error={errors[each.name]}
        onChange={(value) => setValues((before) => ({ ...before, [each.name]: value }))}
        {...extra}
      />
    );
  const notes = Object.fromEntries(
    providers.filter((each) => !each.connected).map((each) => [each.name, "not connected"]),
  );
  return (
    <form ref={form} className="form" onSubmit={(event) => void submit(event)} noValidate>
      {problem && <ProblemBanner problem={problem} />}
      <div className="panel fields">
        {input(field("entrypoint"), { placeholder: "train.py" })}
        {input(LABEL)}
        {input(field("args"), { placeholder: "--epochs\n10" })}
        {input(field("project_dir"), { placeholder: "where svc serve was started", wide: true })}
      </div>
      <div className="panel fields">
        {input(field("provider"), { notes })}
        {input(field("gpus"), { suggestions: "gpu-models" })}
        {values["provider"] !== "local" && input(field("price_cap"))}
        <datalist id="gpu-models">
          <option value="cpu" />
          {gpus
            .filter((gpu) => provider === undefined || gpu.providers.includes(provider.name))
            .map((gpu) => (
              <option key={gpu.model} value={`${gpu.model}:1`}>{`${gpu.vram_gb} GB`}</option>
            ))}
        </datalist>
        {provider && !provider.connected && (
          <div className="field-wide">
            <Banner tone="warn" title={`${provider.name} is not connected`}>
              {provider.missing.length > 0 && <p>Missing: {provider.missing.join(", ")}.</p>}
            </Banner>
          </div>
        )}
        {values["provider"] !== "local" && values["price_cap"] === "" && (
          <p className="help field-wide">Without a price cap any price is accepted.</p>
        )}
      </div>
      <Advanced open={advancedErrors}>{ADVANCED.map((each) => input(each))}</Advanced>
      <div className="actions form-end">
        <button type="submit" className="button primary" disabled={busy}>
          {busy ? "Starting…" : "Start run"}
        </button>
        <Link href="/" className="button">
          Cancel
        </Link>
        <span className="quiet">
          {values["provider"] === "local"
            ? "Runs on this computer and costs nothing."
            : "Costs money from the moment the machine is made."}
        </span>
      </div>
    </form>
  );
}

function Advanced({ open, children }: { open: boolean; children: ReactNode }) {
  const [shown, setShown] = useState(false);
  return (
    <details className="panel" open={shown || open} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>More settings</summary>
      <div className="fields">{children}</div>
    </details>
  );
}

function bodyOf(values: Values): unknown {
  const spec: Record<string, unknown> = {};
  for (const each of FIELDS) {
    const text = values[each.name] ?? "";
    // A paid machine's cap says nothing about this computer, where the field is not shown.
    if (each.name === "price_cap" && values["provider"] === "local") continue;
    if (each.name !== "provider" && text === each.initial) continue;
    const value = fromText(each, text);
    if (value !== undefined) spec[each.name] = value;
  }
  spec["entrypoint"] ??= "";
  const label = values["label"]?.trim();
  return { ...(label ? { label } : {}), spec };
}

function errorsByField(problem: Problem | null): Record<string, string> {
  const byField: Record<string, string> = {};
  for (const { field: path, message } of problem?.errors ?? []) {
    const name = fieldOfError(path);
    byField[name] = byField[name] ? `${byField[name]}; ${message}` : message;
  }
  return byField;
}

/** What the server offers to choose from; the form works without it. */
function useChoices() {
  const [providers, setProviders] = useState<ProviderInfo[]>([]);
  const [gpus, setGpus] = useState<Gpu[]>([]);
  useEffect(() => {
    let gone = false;
    const unless =
      <T,>(use: (value: T) => void) =>
      (value: T) =>
        void (gone || use(value));
    const nothing = () => undefined;
    api.providers().then(
      unless((answer) => setProviders(answer.providers)),
      nothing,
    );
    api.gpus().then(
      unless((answer) => setGpus(answer.gpus)),
      nothing,
    );
    return () => void (gone = true);
  }, []);
  return { providers, gpus };
}
