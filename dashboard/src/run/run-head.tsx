// The head of a run's page. Its warnings are in `run-banners.tsx`.

import { runsHere } from "../../../src/providers/descriptors.ts";
import { useState, type ReactNode } from "react";
import type { JobRecord, Problem } from "../../../src/schemas/job.ts";
import { bytes } from "../../../src/domain/bytes.ts";
import { api, asProblem } from "../api.ts";
import { usdPerHour } from "../format.ts";
import { costText } from "../../../src/domain/money.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { CopyButton } from "../parts/copy-button.tsx";
import { DeleteDialog } from "../parts/delete-dialog.tsx";
import { KillDialog } from "../parts/kill-dialog.tsx";
import { RunStatus } from "../parts/status-pill.tsx";
import { At, DURATION_COUNTS, Span } from "../parts/time.tsx";
import { Link, navigate, runPath } from "../router.tsx";
import { isActive, titleOf } from "../status.ts";
import { store, useData } from "../store.ts";
import { TagLinks } from "../runs/tag-links.tsx";
import { BudgetBar } from "./budget-bar.tsx";
import { ChangeDialog } from "./change-dialog.tsx";
import { checkpointWords } from "./resume-source.ts";
import { runApi } from "./run-api.ts";
import { RunBanners } from "./run-banners.tsx";

/** The head of a run's page: its facts, its actions and its warnings; `brief` above a part of it on a small screen. */
export function RunHead({ job, brief }: { job: JobRecord; brief: boolean }) {
  const [killing, setKilling] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const [changing, setChanging] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const archive = async () => {
    setProblem(null);
    try {
      store.trigger.jobLoaded({ job: await api.archive(job.id, job.archived_at === null) });
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const args = job.args.length > 0 ? ` ${job.args.join(" ")}` : "";
  // Deleting takes a while: a person may have opened another page meanwhile.
  const left = () => location.pathname === runPath(job.id) && navigate("/");
  const held = job.machines.some((machine) => machine.terminated_at === null && machine.address !== null);
  return (
    <div className={brief ? "run-head run-head-brief" : "run-head"}>
      <div className="run-head-row">
        <div className="run-name">
          <RunStatus job={job} />
          <h1 className="run-title">
            <bdi>{titleOf(job)}</bdi>
          </h1>
          <CopyButton text={job.id} what="the run's id" />
          {isActive(job) && !runsHere(job.provider) && held && (
            <CopyButton text={`svc ssh ${job.id}`} what="the command that opens a shell on the machine" />
          )}
        </div>
        <div className="actions">
          <Downloads job={job} />
          <Link className="button" href={`/new?from=${encodeURIComponent(job.id)}`}>
            Rerun<span className="wide"> with changes</span>
          </Link>
          <button type="button" className="button" onClick={() => setChanging(true)}>
            Edit
          </button>
          {isActive(job) && job.status !== "terminating" && (
            <button type="button" className="button danger" onClick={() => setKilling(true)}>
              Kill
            </button>
          )}
          {!isActive(job) && (
            <button type="button" className="button" onClick={() => void archive()}>
              {job.archived_at === null ? "Archive" : "Unarchive"}
            </button>
          )}
          {!isActive(job) && (
            <button type="button" className="button" onClick={() => setDeleting(true)}>
              Delete
            </button>
          )}
        </div>
      </div>
      {job.archived_at !== null && (
        <p className="resume-source archived-note">
          Archived <At at={job.archived_at} />: lists leave it out, and nothing deletes it by age.
        </p>
      )}
      {problem && <ProblemBanner problem={problem} />}
      {job.tags.length > 0 && (
        <p className="run-tags">
          <span className="hidden">Tags: </span>
          <TagLinks tags={job.tags} />
        </p>
      )}
      {job.resumed_from !== null && <ResumeSource source={job.resumed_from} />}
      <dl className="facts">
        <Fact name="Command" wide known>
          <code title={job.entrypoint + args}>
            <bdi>{inOrder(job.entrypoint + args)}</bdi>
          </code>
        </Fact>
        <Fact name="Machine" known>
          {job.provider}, {job.gpus}
          {job.nodes > 1 && ` × ${job.nodes}`}
        </Fact>
        <Fact name="Created" known>
          <At at={job.created_at} />
        </Fact>
        <Fact name="Duration" title={DURATION_COUNTS}>
          <Span from={job.created_at} to={job.ended_at} />
        </Fact>
        <Fact name="Cost">
          <span className="num">{costText(job)}</span>
          {job.price_per_hour_usd !== null && job.price_per_hour_usd > 0 && (
            <span className="quiet"> at {usdPerHour(job.price_per_hour_usd)}</span>
          )}
        </Fact>
        {job.disk_bytes !== null && (
          <Fact name="On this disk">
            <span className="num">{bytes(job.disk_bytes)}</span>
          </Fact>
        )}
        {job.exit_code !== null && (
          <Fact name="Exit code">
            <span className="num">{job.exit_code}</span>
          </Fact>
        )}
      </dl>
      <BudgetBar job={job} />
      <RunBanners job={job} />
      {changing && <ChangeDialog job={job} onClose={() => setChanging(false)} />}
      {deleting && <DeleteDialog jobs={[job]} onClose={() => setDeleting(false)} onDone={left} />}
      {killing && <KillDialog job={job} onClose={() => setKilling(false)} />}
    </div>
  );
}

/** The run and the checkpoint that this run continues. */
function ResumeSource({ source }: { source: NonNullable<JobRecord["resumed_from"]> }) {
  const from = useData((data) => data.jobs[source.job]);
  const words = checkpointWords(source);
  return (
    <p className="resume-source">
      Resumes{" "}
      <Link href={runPath(source.job, "checkpoints")}>
        {from && (
          <>
            <bdi>{titleOf(from)}</bdi>{" "}
          </>
        )}
        <code>{source.job}</code>
      </Link>
      {words && (
        <>
          {" "}
          from <bdi title={inOrder(source.checkpoint ?? "")}>{words}</bdi>
        </>
      )}
    </p>
  );
}

/** `known`: does not change, and is shown on the overview. */
function Fact(props: { name: string; title?: string; wide?: boolean; known?: boolean; children: ReactNode }) {
  const { name, title, wide, known, children } = props;
  return (
    <div className={`fact${wide ? " fact-wide" : ""}${known ? " fact-known" : ""}`}>
      <dt title={title}>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Downloads({ job }: { job: JobRecord }) {
  return (
    <details className="pop downloads">
      <summary className="button">Download</summary>
      <div className="pop-body menu-list">
        <a href={api.logUrl(job.id)} download={`${job.id}.log`}>
          Log
        </a>
        <a href={runApi.checkpointsTar(job.id)} download={`${job.id}-checkpoints.tar`}>
          Checkpoints, .tar
        </a>
        {job.code_snapshot !== null && (
          <a href={runApi.codeTar(job.id)} download={`${job.id}-code.tar`}>
            Code, .tar
          </a>
        )}
        <a href={runApi.recordUrl(job.id)} download={`${job.id}.json`}>
          Record, .json
        </a>
      </div>
    </details>
  );
}
