// The form that starts a run. Its fields come from the schema of the spec; the plan next to it comes from the
// server, which also checks the values.

import { descriptorOf, runsHere } from "../../../src/providers/descriptors.ts";
import { useEffect, useMemo, useRef, useState, type ComponentType, type FormEvent, type ReactNode } from "react";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import type { Gpu, JobRecord, Problem, ProviderInfo } from "../../../src/schemas/job.ts";
import { api, asProblem } from "../api.ts";
import { newKey } from "../form/new-key.ts";
import { FieldInput, type OneFieldProps } from "../form/field-input.tsx";
import { CandidatesInput } from "../form/candidates-input.tsx";
import { CodeTabs } from "../form/code-tabs.tsx";
import { DataInput } from "../form/data-input.tsx";
import { FolderField, useFolder } from "../form/folder-field.tsx";
import { GpuPicker } from "../form/gpu-picker.tsx";
import { PlanPanel } from "../form/plan-panel.tsx";
import { byField, inOwnWords, refusalsOf, titlesOf } from "../form/problem-words.ts";
import {
  bodyOf,
  FIELDS,
  initialValues,
  isGpuOnly,
  LABEL,
  TAGS,
  maskedOf,
  mayRent,
  openQuotes,
  PAID_LIMITS,
  unreadable,
  valuesOf,
  withGpus,
  type Values,
} from "../form/run-values.ts";
import { ResumeCheckpointInput, ResumeFromInput } from "../form/resume-input.tsx";
import { fieldOfError, type Field } from "../form/schema-fields.ts";
import { grouped } from "../form/setting-groups.ts";
import { SinksInput } from "../form/sinks-input.tsx";
import { TYPED_MS } from "../form/typed.ts";
import { useDraft } from "../form/use-draft.ts";
import { usePlan } from "../form/use-plan.ts";
import { usdPerHour } from "../format.ts";
import { Banner, ProblemBanner } from "../parts/banner.tsx";
import { useTitle } from "../parts/title.ts";
import { Link, navigate, runPath } from "../router.tsx";
import { titleOf } from "../status.ts";
import { store } from "../store.ts";

const MAIN = ["entrypoint", "args", "project_dir", "provider", "gpus", ...PAID_LIMITS];
/** The settings of a run's machines, and of what follows when one is lost or none is free. */
const FURTHER = ["candidates", "choose", "wait_for_capacity_minutes", "spot", "retry", "max_preemptions"];
const SETTINGS = grouped(FIELDS.filter(({ name }) => !MAIN.includes(name) && !FURTHER.includes(name)));
const field = (name: string) => FIELDS.find((each) => each.name === name);

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
  const checkpoint = query.get("checkpoint");
  return (
    <div className="page page-new">
      <div className="page-head">
        <h1>New run</h1>
        {job && (
          <p className="quiet">
            {checkpoint === null ? "From" : "Continues"}{" "}
            <Link href={runPath(job.id)}>
              <bdi>{titleOf(job)}</bdi>
            </Link>
            {checkpoint !== null && (
              <>
                {" "}
                from checkpoint{" "}
                <code>
                  <bdi>{inOrder(checkpoint)}</bdi>
                </code>
              </>
            )}
          </p>
        )}
      </div>
      {source !== null && !("id" in source) && <ProblemBanner problem={source} />}
      {job && maskedOf(job).length > 0 && (
        <Banner tone="warn" title="Secrets are not stored with a run">
          <p>Set again under Environment: {maskedOf(job).join(", ")}.</p>
        </Banner>
      )}
      <RunForm initial={job ? resuming(job, checkpoint) : initialValues(query)} />
    </div>
  );
}

/** The values of an earlier run; with a checkpoint, of one that continues from it. */
const resuming = (job: JobRecord, checkpoint: string | null): Values =>
  checkpoint === null ? valuesOf(job) : { ...valuesOf(job), resume_from: job.id, resume_checkpoint: checkpoint };

function RunForm({ initial }: { initial: Values }) {
  const [values, setValues] = useDraft(initial);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  /** One key per form: a second click or a repeated request does not start a second run. */
  const key = useRef(newKey());
  const sending = useRef(false);
  const { providers, gpus } = useChoices();
  /** Fields that were changed since the server refused them. */
  const [mended, setMended] = useState<ReadonlySet<string>>(new Set());
  const errors = useMemo(() => errorsByField(problem, mended), [problem, mended]);
  const provider = providers.find((each) => each.name === values["provider"]);
  // They replace the provider.
  const hasCandidates = (values["candidates"] ?? "") !== "";
  // They are sent whatever the provider is, so they stay in view: one of them may be what it refuses.
  const further = FURTHER.filter((name) => (values[name] ?? "") !== (field(name)?.initial ?? "")).length;
  // Nor do they go from under the hands of a person who empties the last one.
  const [isEditing, setIsEditing] = useState(false);
  const { folder } = useFolder((values["project_dir"] ?? "").trim(), TYPED_MS);
  const body = bodyOf(values);
  const planned = usePlan(body);
  const quotes = openQuotes(values);
  const planProblem = inOwnWords(planned.problem, quotes);
  const wrong = { ...byField(planProblem?.errors ?? []), ...unreadable(values) };
  const complaints: Record<string, string> = { ...refusalsOf(planned), ...wrong, ...errors, ...quotes };
  const set = (name: string, value: string) => {
    setValues((before) => {
      const after = { ...before, [name]: value };
      return name === "provider" ? withGpus(after) : after;
    });
    setMended((before) => new Set(before).add(name));
    if (name === "provider") setIsEditing(false);
    else if (FURTHER.includes(name)) setIsEditing(true);
  };

  useEffect(() => {
    if (problem) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [problem]);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (sending.current) return;
    sending.current = true;
    setBusy(true);
    setProblem(null);
    setMended(new Set());
    try {
      const job = await api.submit(body, key.current);
      store.trigger.jobLoaded({ job });
      navigate(runPath(job.id));
    } catch (error) {
      const refused = asProblem(error);
      // The server refused the request: nothing was started under this key. Without an answer the key stays, because
      // the run may have been started.
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
        error={complaints[each.name]}
        onChange={(value) => set(each.name, value)}
        {...extra}
      />
    );
  /** A field with an input of its own. */
  const own = (name: string, Input: ComponentType<OneFieldProps>) => {
    const known = field(name);
    return (
      known && (
        <Input
          key={name}
          field={known}
          value={values[name] ?? ""}
          error={complaints[name]}
          onChange={(value) => set(name, value)}
        />
      )
    );
  };
  const setting = (each: Field) => {
    if (each.name === "data") return own("data", DataInput);
    if (each.name === "sinks") return own("sinks", SinksInput);
    if (each.name === "resume_from") return own("resume_from", ResumeFromInput);
    if (each.name !== "resume_checkpoint") return input(each);
    return (
      <ResumeCheckpointInput
        key={each.name}
        from={(values["resume_from"] ?? "").trim()}
        field={each}
        value={values[each.name] ?? ""}
        error={complaints[each.name]}
        onChange={(value) => set(each.name, value)}
      />
    );
  };
  const notes = Object.fromEntries(
    providers.filter((each) => !each.connected).map((each) => [each.name, "not connected"]),
  );
  const price = planned.busy ? null : (planned.plan?.price_per_hour_usd ?? null);
  return (
    <div className="new-run">
      <form ref={form} className="form" onSubmit={(event) => void submit(event)} noValidate>
        {problem && <Refused problem={problem} errors={errors} />}
        <div className="panel fields">
          {input(field("entrypoint"), { placeholder: "train.py", suggestions: "project-scripts" })}
          <datalist id="project-scripts">
            {folder?.scripts.map((script) => (
              <option key={script} value={script} />
            ))}
          </datalist>
          {input(LABEL)}
          {input(TAGS, { placeholder: "paper, ablation" })}
          {input(field("args"), { placeholder: "--epochs 10 --name 'first try'" })}
          {own("project_dir", FolderField)}
        </div>
        <div className="panel fields">
          {input(field("provider"), { notes })}
          {input(field("gpus"), {
            suggestions: "gpu-models",
            ...(isGpuOnly(values["provider"]) ? { placeholder: "choose one, such as A100:1" } : {}),
          })}
          <GpuPicker
            gpus={gpus}
            provider={values["provider"] ?? ""}
            value={values["gpus"] ?? ""}
            onChange={(value) => set("gpus", value)}
          />
          {mayRent(values) && PAID_LIMITS.map((name) => input(field(name)))}
          <datalist id="gpu-models">
            {!isGpuOnly(values["provider"]) && <option value="cpu" />}
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
                <p>
                  <Link href={`/connect?open=${provider.name}`}>Connect {provider.name}</Link>. This form keeps its
                  entries.
                </p>
              </Banner>
            </div>
          )}
        </div>
        {(isRented(values["provider"] ?? "") || hasCandidates || further > 0 || isEditing) && (
          <More title="If a machine is lost or none is free" set={further} open={FURTHER.some((name) => errors[name])}>
            {FURTHER.map((name) => (name === "candidates" ? own(name, CandidatesInput) : input(field(name))))}
          </More>
        )}
        {SETTINGS.map(({ title, fields }) => (
          <More
            key={title}
            title={title}
            set={fields.filter(({ name, initial: before }) => (values[name] ?? "") !== before).length}
            open={fields.some(({ name }) => errors[name])}
          >
            {fields.map((each) => setting(each))}
          </More>
        ))}
        <div className="actions form-end">
          <button type="submit" className="button primary" aria-disabled={busy}>
            {busy ? "Starting…" : price ? `Start run, ${usdPerHour(price)}` : "Start run"}
          </button>
          <Link href="/" className="button">
            Cancel
          </Link>
          <span className="quiet">{hasCandidates ? PAID : costWords(values["provider"] ?? "")}</span>
        </div>
      </form>
      <aside className="new-run-side" aria-label="Plan">
        <PlanPanel {...planned} problem={planProblem} />
        <CodeTabs body={body} projectDir={planned.plan?.project_dir ?? null} wrong={titlesOf(Object.keys(wrong))} />
      </aside>
    </div>
  );
}

const isRented = (provider: string): boolean => descriptorOf(provider)?.capabilities.bills === true;

interface MoreProps {
  title: string;
  open: boolean;
  /** How many of its fields differ from what they are at first. */
  set?: number;
  children: ReactNode;
}

function More({ title, open, set = 0, children }: MoreProps) {
  const [shown, setShown] = useState(false);
  return (
    <details className="panel" open={shown || open} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>
        {title}
        {set > 0 && <span className="quiet"> ({set} set)</span>}
      </summary>
      {(shown || open) && <div className="fields">{children}</div>}
    </details>
  );
}

/**
 * Why nothing was started. Errors that are shown at their field are omitted, and disappear once the field was changed.
 */
function Refused({ problem, errors }: { problem: Problem; errors: Record<string, string> }) {
  const told = errorsByField(problem, NOTHING_MENDED);
  const named = [LABEL, TAGS, ...FIELDS].filter((each) => told[each.name]);
  if (problem.code !== "invalid_request" || named.length < Object.keys(told).length || named.length === 0)
    return <ProblemBanner problem={problem} />;
  const left = named.filter((each) => errors[each.name]);
  if (left.length === 0) return null;
  return (
    <Banner tone="bad" title="Nothing was started">
      <p>To correct: {left.map((each) => each.title).join(", ")}.</p>
    </Banner>
  );
}

const NOTHING_MENDED: ReadonlySet<string> = new Set();

const errorsByField = (problem: Problem | null, mended: ReadonlySet<string>): Record<string, string> =>
  byField((problem?.errors ?? []).filter(({ field: path }) => !mended.has(fieldOfError(path))));

/** The choices that the server offers; the form works without them. */
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

const PAID = "Costs money from the moment the machine is created.";

function costWords(provider: string): string {
  if (runsHere(provider)) return "Runs on this computer and costs nothing.";
  return descriptorOf(provider)?.capabilities.bills === false
    ? "Runs on the machine that you connected; svc rents none."
    : PAID;
}
