// The part of the Checkpoints tab from which a new run can resume.

import { useEffect, useRef, useState } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import type { JobRecord, ResumePoint } from "../../../src/schemas/job.ts";
import { number, plural } from "../format.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { At } from "../parts/time.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { Link } from "../router.tsx";
import { runApi } from "./run-api.ts";
import { stepOf } from "./step-of.ts";

const POINTS_SHOWN = 5;

/** Complete checkpoints, the newest first, each with a link to a run that continues from it. */
export function ResumePoints({ job, newest }: { job: JobRecord; newest: string }) {
  const { data, problem, reload } = useAnswer(() => runApi.resumePoints(job.id));
  const known = useRef(newest);
  useEffect(() => {
    if (known.current !== newest) reload();
    known.current = newest;
  }, [newest, reload]);
  const [all, setAll] = useState(false);
  if (problem) return <ProblemBanner problem={problem} />;
  if (!data) return <p className="quiet pad">Looking for complete checkpoints…</p>;
  const shown = all ? data.checkpoints : data.checkpoints.slice(0, POINTS_SHOWN);
  return (
    <section className="panel" aria-labelledby="points-title">
      <h2 id="points-title">Complete checkpoints</h2>
      {data.checkpoints.length === 0 && (
        <p className="quiet">None yet. A run can resume only from a checkpoint that is complete on this computer.</p>
      )}
      <ul className="plain points">
        {shown.map((point) => (
          <li key={point.name}>
            <span>
              <strong>{stepWords(point)}</strong>{" "}
              <code>
                <bdi>{inOrder(point.name)}</bdi>
              </code>{" "}
              <span className="quiet">
                {bytes(point.bytes)}
                {point.files > 1 && ` in ${plural(point.files, "file")}`}, saved <At at={point.saved_at} />
              </span>
            </span>
            <Link
              className="button small"
              href={`/new?from=${encodeURIComponent(job.id)}&checkpoint=${encodeURIComponent(point.name)}`}
              aria-label={`Resume from this: ${point.name}`}
            >
              Resume from this
            </Link>
          </li>
        ))}
      </ul>
      {shown.length < data.checkpoints.length && (
        <button type="button" className="button small" onClick={() => setAll(true)}>
          Show all {number(data.checkpoints.length)}
        </button>
      )}
    </section>
  );
}

function stepWords({ name, step }: ResumePoint): string {
  const known = step ?? stepOf(name);
  return known === null ? "" : `Step ${number(known)}`;
}
