// One card of the Connect page. A secret goes to the server when it is saved and is never read back.

import { useRef, useState } from "react";
import type { CredentialField } from "../../../src/providers/descriptor.ts";
import { CREDENTIAL_BLOCKS, type CredentialName } from "../../../src/schemas/credential-blocks.ts";
import type { CredentialCheck, ShownCredential } from "../../../src/schemas/credentials.ts";
import type { Problem, ProviderInfo } from "../../../src/schemas/job.ts";
import { api, asProblem } from "../api.ts";
import { usd } from "../format.ts";
import { AskFirst } from "../parts/ask-first.tsx";
import { ProblemBanner } from "../parts/banner.tsx";
import { withCode } from "../parts/with-code.tsx";
import { Link } from "../router.tsx";

interface CredentialCardProps {
  name: CredentialName;
  given: ShownCredential;
  info: ProviderInfo | undefined;
  open: boolean;
  onToggle: (open: boolean) => void;
  /** Called after a value was saved or removed. */
  onChange: () => void;
}

type Outcome = { check: CredentialCheck | null; saved: boolean } | null;

/** The card of one provider or service: its stored fields, where to get missing ones, and whether it works. */
export function CredentialCard({ name, given, info, open, onToggle, onChange }: CredentialCardProps) {
  const { about, fields: all, guide, speaks } = CREDENTIAL_BLOCKS[name];
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [outcome, setOutcome] = useState<Outcome>(null);
  const form = useRef<HTMLFormElement>(null);
  const stored = Object.values(given).some((each) => !each.read_only);
  const body = () =>
    Object.fromEntries(
      Object.entries(texts).flatMap(([key, text]) => (text.trim() === "" ? [] : [[key, text.trim()]])),
    );
  const work = async (word: string, act: () => Promise<Outcome>) => {
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
  const changed = Object.keys(body()).length > 0;
  const nothing = Object.keys(given).length === 0;
  const save = (check: boolean) =>
    changed &&
    work(check ? "Checking…" : "Saving…", async () => {
      const saved = await api.saveCredential(name, body(), check);
      setTexts({});
      onChange();
      return { check: saved.check, saved: true };
    });
  const remove = () =>
    work("Removing…", async () => {
      await api.removeCredential(name);
      onChange();
      return null;
    });
  const errors = errorsOf(problem);
  const row = (field: CredentialField) => (
    <CredentialInput
      key={field.name}
      owner={name}
      field={field}
      shown={given[field.name]}
      text={texts[field.name] ?? ""}
      error={errors[field.name]}
      onChange={(text) => setTexts((before) => ({ ...before, [field.name]: text }))}
    />
  );
  return (
    <details className="panel connect" id={name} open={open} onToggle={(event) => onToggle(event.currentTarget.open)}>
      <summary>
        <span className="connect-name">
          <strong>{name}</strong> <span className="quiet">{info?.speaks ?? speaks}</span>
        </span>
        <State given={given} info={info} />
      </summary>
      <p className="quiet prose">{about}</p>
      {guide && (
        <p>
          <Link href={guide.href}>{guide.title}</Link>
        </p>
      )}
      <form
        ref={form}
        className="form gap-above"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void save(true);
        }}
      >
        <div className="fields">{all.filter((field) => field.first).map(row)}</div>
        {all.some((field) => !field.first) && (
          <details className="more-fields">
            <summary>More settings</summary>
            <div className="fields">{all.filter((field) => !field.first).map(row)}</div>
          </details>
        )}
        <div className="actions">
          <button type="submit" className="button primary" aria-disabled={!changed || busy !== ""}>
            {busy || "Check and save"}
          </button>
          <button
            type="button"
            className="button"
            aria-disabled={!changed || busy !== ""}
            onClick={() => void save(false)}
          >
            Save unchecked
          </button>
          <button
            type="button"
            className="button"
            aria-disabled={nothing || busy !== ""}
            onClick={() =>
              nothing || void work("Checking…", async () => ({ check: await api.checkCredential(name), saved: false }))
            }
          >
            Check now
          </button>
          {stored && (
            <AskFirst ask="Remove…" yes="Remove the stored credential" busy={busy !== ""} onYes={() => void remove()} />
          )}
        </div>
        <div aria-live="polite">
          {problem && <ProblemBanner problem={problem} />}
          {outcome && <Found outcome={outcome} />}
        </div>
      </form>
      {info && (
        <p className="quiet small-text gap-above">How a machine ends without svc: {withCode(info.stops_by_itself)}</p>
      )}
    </details>
  );
}

function State({ given, info }: Pick<CredentialCardProps, "given" | "info">) {
  const sources = [...new Set(Object.values(given).map((each) => each.source))];
  const from = sources.map((source) => SOURCE_WORDS[source]).join(" and ");
  const connected = info ? info.connected : sources.length > 0;
  if (connected) return <span className="pill pill-succeeded">connected{from && `, ${from}`}</span>;
  return (
    <span className="pill" title={info?.missing.join("; ")}>
      not connected
    </span>
  );
}

const SOURCE_WORDS = { env: "from the environment", registry: "by configure()", store: "stored here" } as const;

function Found({ outcome }: { outcome: NonNullable<Outcome> }) {
  const { check, saved } = outcome;
  return (
    <div className="banner banner-info" role="status">
      <p className="banner-title">
        {saved ? "Saved. " : ""}
        {check ? "It works." : ""}
      </p>
      {check && (
        <>
          {check.account && (
            <p>
              Account <bdi>{check.account}</bdi>
              {check.balance_usd !== null && `, balance ${usd(check.balance_usd)}`}
            </p>
          )}
          {check.may.length > 0 && <p>May: {check.may.join(", ")}.</p>}
          {check.warnings.map((warning) => (
            <p key={warning} className="doubt">
              {warning}
            </p>
          ))}
        </>
      )}
    </div>
  );
}

function errorsOf(problem: Problem | null): Record<string, string> {
  return Object.fromEntries(
    (problem?.errors ?? []).map(({ field, message }) => [field.split(/[.[]/)[0] ?? "", message]),
  );
}

interface CredentialInputProps {
  owner: CredentialName;
  field: CredentialField;
  shown: ShownCredential[string] | undefined;
  text: string;
  error: string | undefined;
  onChange: (text: string) => void;
}

function CredentialInput({ owner, field, shown, text, error, onChange }: CredentialInputProps) {
  const id = `${owner}-${field.name}`;
  const common = {
    id,
    "aria-describedby": `${id}-help`,
    "aria-invalid": error ? true : undefined,
    autoComplete: "off",
    spellCheck: false,
    placeholder: shown?.value ?? "",
    disabled: shown?.read_only ?? false,
    value: text,
  };
  return (
    <div className={field.kind === "key_file" ? "field field-wide" : "field"}>
      <label htmlFor={id}>
        {field.title}
        {shown && (
          <span className="unit">
            {" "}
            {shown.read_only ? `from ${shown.source === "env" ? "the environment" : "configure()"}` : "set"}
          </span>
        )}
      </label>
      {field.kind === "key_file" ? (
        <textarea {...common} rows={2} onChange={(event) => onChange(event.target.value)} />
      ) : (
        <input
          {...common}
          type={field.secret ? "password" : "text"}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
      <p className="help" id={`${id}-help`}>
        {field.help && !shown?.read_only && <>{field.help} </>}
        {shown?.read_only
          ? withCode(`Set by \`${field.variables[0] ?? "configure()"}\`, which takes precedence; change it there.`)
          : withCode(`Or \`${field.variables[0] ?? ""}\` in the environment of \`svc serve\`.`)}
      </p>
      {error && <p className="field-error">{error}</p>}
    </div>
  );
}
