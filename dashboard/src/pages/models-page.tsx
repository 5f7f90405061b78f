// The Models page: models on this computer, running pulls, and the form that starts one.

import { useEffect, useState } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import type { HubModel, HubPull } from "../../../src/schemas/hub.ts";
import type { Problem } from "../../../src/schemas/job.ts";
import { api, asProblem } from "../api.ts";
import { TextField, useSmallForm } from "../form/small-form.tsx";
import { duration, plural, words } from "../format.ts";
import { AskFirst } from "../parts/ask-first.tsx";
import { ProblemBanner } from "../parts/banner.tsx";
import { At } from "../parts/time.tsx";
import { useTitle } from "../parts/title.ts";
import { useAnswer } from "../parts/use-answer.ts";
import { Link } from "../router.tsx";
import { onHint } from "../sync.ts";

export function ModelsPage() {
  useTitle("Models");
  const { models, pulls, problem, reload } = useModels();
  return (
    <div className="page page-form">
      <div className="page-head">
        <h1>Models</h1>
        <p className="quiet">{models && plural(models.length, "model")}</p>
      </div>
      <p className="quiet prose">
        Models of the hub, kept on this computer and verified by their digests. The token is set at{" "}
        <Link href="/connect?open=hub">Connect</Link>.
      </p>
      {problem && <ProblemBanner problem={problem} />}
      <Pull onStarted={reload} />
      {pulls.length > 0 && (
        <section className="panel" aria-labelledby="pulls">
          <h2 id="pulls">Pulls</h2>
          <ul className="plain pulls">
            {pulls.map((pull) => (
              <PullRow key={pull.id} pull={pull} onChange={reload} />
            ))}
          </ul>
        </section>
      )}
      {models === null && !problem && <p className="quiet pad">Reading the models…</p>}
      {models !== null && (
        <section className="panel" aria-labelledby="here">
          <h2 id="here">On this computer</h2>
          {models.length === 0 ? (
            <p className="quiet">
              None yet. Pull one above, or adopt a folder from Python with <code>svc.hub.from_local()</code>.
            </p>
          ) : (
            <ul className="plain pulls">
              {models.map((model) => (
                <ModelRow key={model.path} model={model} onRemoved={reload} />
              ))}
            </ul>
          )}
        </section>
      )}
    </div>
  );
}

/** Models and pulls; the feed's progress is merged into the data. */
function useModels() {
  const answer = useAnswer(async () => {
    const [{ models }, { pulls }] = await Promise.all([api.models(), api.pulls()]);
    return { models, pulls };
  });
  const [live, setLive] = useState<Record<string, HubPull>>({});
  const { reload } = answer;
  useEffect(
    () =>
      onHint((hint) => {
        if (hint.type === "pull.progress") setLive((before) => ({ ...before, [hint.pull.id]: hint.pull }));
        if (hint.type === "pulls.changed") reload();
      }),
    [reload],
  );
  const pulls = (answer.data?.pulls ?? []).map((pull) => (pull.status === "running" ? (live[pull.id] ?? pull) : pull));
  return { models: answer.data?.models ?? null, pulls, problem: answer.problem, reload };
}

function Pull({ onStarted }: { onStarted: () => void }) {
  const { ref, busy, problem, onSubmit } = useSmallForm(async (text) => {
    const revision = text("revision");
    const patterns = text("patterns").split(/\s+/).filter(Boolean);
    await api.pull({
      model_id: text("model"),
      ...(revision ? { revision } : {}),
      ...(patterns.length > 0 ? { allow_patterns: patterns } : {}),
    });
    onStarted();
  });
  return (
    <section className="panel" aria-labelledby="pull">
      <h2 id="pull">Pull a model</h2>
      <form ref={ref} className="form" onSubmit={onSubmit}>
        <div className="fields">
          <TextField label="Model" id="pull-model" name="model" required placeholder="owner/name" />
          <TextField label="Revision" id="pull-revision" name="revision" placeholder="main" />
          <TextField
            label="Only these files"
            id="pull-patterns"
            name="patterns"
            placeholder="*.safetensors *.json"
            wide
          />
        </div>
        <div className="actions">
          <button type="submit" className="button primary" aria-disabled={busy}>
            {busy ? "Starting…" : "Pull"}
          </button>
        </div>
        {problem && <ProblemBanner problem={problem} />}
      </form>
    </section>
  );
}

const ENDED = { succeeded: "pill-succeeded", failed: "pill-failed", running: "pill-active" } as const;

function PullRow({ pull, onChange }: { pull: HubPull; onChange: () => void }) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const running = pull.status === "running";
  const left =
    running && pull.bytes_total !== null && pull.bytes_per_second
      ? ((pull.bytes_total - pull.bytes_done) / pull.bytes_per_second) * 1000
      : null;
  const cancel = () => api.cancelPull(pull.id).then(onChange, (error: unknown) => setProblem(asProblem(error)));
  return (
    <li className="pull">
      <div className="pull-head">
        <span className="connect-name">
          <strong>
            <bdi>{pull.model_id}</bdi>
          </strong>{" "}
          <span className="quiet">
            <bdi>{pull.revision}</bdi>
            {pull.commit && ` · ${pull.commit.slice(0, 8)}`}
          </span>
        </span>
        <span className={`pill ${ENDED[pull.status as keyof typeof ENDED] ?? ""}`}>
          {running && pull.phase ? words(pull.phase) : words(pull.status)}
        </span>
        {running && (
          <button
            type="button"
            className="button small"
            onClick={() => void cancel()}
            aria-label={`Cancel ${pull.model_id}`}
          >
            Cancel
          </button>
        )}
      </div>
      {running && (
        <progress
          aria-label={`Progress of ${pull.model_id}`}
          {...(pull.bytes_total === null ? {} : { max: Math.max(1, pull.bytes_total), value: pull.bytes_done })}
        />
      )}
      <p className="quiet small-text num">
        {bytes(pull.bytes_done)}
        {pull.bytes_total !== null && ` of ${bytes(pull.bytes_total)}`} · {pull.files_done}
        {pull.files_total !== null && ` of ${pull.files_total}`} files
        {running && pull.bytes_per_second !== null && ` · ${bytes(pull.bytes_per_second)}/s`}
        {left !== null && ` · ${duration(left)} left`}
        {!running && pull.ended_at && (
          <>
            {" "}
            · <At at={pull.ended_at} />
          </>
        )}
      </p>
      {pull.note && (
        <p className="doubt small-text">
          {pull.note.message}
          {pull.note.retry_in_seconds !== null && ` Retrying in ${pull.note.retry_in_seconds} s.`}
        </p>
      )}
      {pull.error && (
        <p className="bad small-text">
          {pull.error.message} {pull.error.hint}
        </p>
      )}
      {problem && <ProblemBanner problem={problem} />}
    </li>
  );
}

function ModelRow({ model, onRemoved }: { model: HubModel; onRemoved: () => void }) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const id = model.model_id;
  const remove = () => api.removeModel(id ?? "").then(onRemoved, (error: unknown) => setProblem(asProblem(error)));
  return (
    <li className="pull">
      <div className="pull-head">
        <span className="connect-name">
          <strong>
            <bdi>{id ?? "adopted"}</bdi>
          </strong>{" "}
          <span className="quiet num">
            {plural(model.files, "file")}, {bytes(model.bytes)}
            {model.revision && ` · ${model.revision.slice(0, 8)}`} · {model.source}
          </span>
        </span>
        {id !== null && (
          <AskFirst
            ask="Remove…"
            label={`Remove ${id}`}
            yes={`Remove ${bytes(model.bytes)}`}
            small
            onYes={() => void remove()}
          />
        )}
      </div>
      <p className="quiet small-text">
        <code>{model.path}</code>
      </p>
      {problem && <ProblemBanner problem={problem} />}
    </li>
  );
}
