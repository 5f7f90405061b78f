// The two fields that say from where a run continues: an earlier run, and one of its complete checkpoints.

import { useEffect, useState } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import type { ResumePoint } from "../../../src/schemas/job.ts";
import { api } from "../api.ts";
import { useAnswer } from "../parts/use-answer.ts";
import { titleOf } from "../status.ts";
import { FieldInput, type OneFieldProps } from "./field-input.tsx";
import { recentRuns } from "./recent-runs.ts";
import { TYPED_MS } from "./typed.ts";

/** The id of the run to continue from. The list suggests recent runs; any id can be entered. */
export function ResumeFromInput(props: OneFieldProps) {
  const { data } = useAnswer(recentRuns);
  return (
    <>
      <FieldInput {...props} suggestions="resume-runs" placeholder="none" />
      <datalist id="resume-runs">
        {data?.map((job) => (
          <option key={job.id} value={job.id}>{`${titleOf(job)}, ${job.status}`}</option>
        ))}
      </datalist>
    </>
  );
}

/** The checkpoint to continue from, of the run `from`. */
export function ResumeCheckpointInput({ from, ...props }: OneFieldProps & { from: string }) {
  const points = useResumePoints(from);
  if (points.length === 0 && props.value === "") return null;
  const choices = points.map(({ name }) => name);
  const notes = Object.fromEntries(
    points.map((point) => [point.name, `${point.step === null ? "" : `step ${point.step}, `}${bytes(point.bytes)}`]),
  );
  return (
    <FieldInput
      {...props}
      field={{
        ...props.field,
        kind: "choice",
        choices: ["", ...choices, ...(choices.includes(props.value) || props.value === "" ? [] : [props.value])],
      }}
      notes={notes}
      names={{ "": "the last complete one" }}
    />
  );
}

/** The checkpoints of the run, newest first; none while its id is being typed. */
function useResumePoints(from: string): ResumePoint[] {
  const [found, setFound] = useState<{ from: string; points: ResumePoint[] }>({ from: "", points: [] });
  useEffect(() => {
    if (from === "") return;
    let gone = false;
    const timer = setTimeout(() => {
      api.resumePoints(from).then(
        ({ checkpoints }) => gone || setFound({ from, points: checkpoints }),
        () => gone || setFound({ from, points: [] }),
      );
    }, TYPED_MS);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [from]);
  return found.from === from ? found.points : [];
}
