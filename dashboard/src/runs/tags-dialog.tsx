// The dialog that adds tags to the selected runs, or removes them.

import { useRef, useState } from "react";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { tagsAfter, tagsIn } from "../../../src/schemas/tag-words.ts";
import { plural } from "../format.ts";
import { TextField, useSmallForm } from "../form/small-form.tsx";
import { ProblemBanner } from "../parts/banner.tsx";
import { Modal } from "../parts/modal.tsx";
import { SaveActions } from "../parts/save-actions.tsx";
import { runApi } from "../run/run-api.ts";
import { changeAll } from "./change-all.ts";

export function TagsDialog({ jobs, onClose }: { jobs: readonly JobRecord[]; onClose: () => void }) {
  const cancel = useRef<HTMLButtonElement>(null);
  const [asked] = useState(jobs);
  const [removed, setRemoved] = useState<ReadonlySet<string>>(new Set());
  const present = [...new Set(asked.flatMap((job) => job.tags))].toSorted();
  const toggle = (tag: string) =>
    setRemoved((tags) => new Set(tags.has(tag) ? [...tags].filter((each) => each !== tag) : [...tags, tag]));
  const { ref, busy, problem, onSubmit } = useSmallForm(async (text) => {
    const added = tagsIn(text("added"));
    const after = (job: JobRecord): string[] => tagsAfter(job.tags, added, [...removed]);
    const changed = asked.filter((job) => after(job).join(",") !== job.tags.join(","));
    await changeAll(changed, (job) => runApi.change(job.id, { tags: after(job) }));
    onClose();
  });
  return (
    <Modal titleId="tags-title" first={cancel} onClose={onClose}>
      <h2 id="tags-title">Tags of {plural(asked.length, "run")}</h2>
      <form ref={ref} className="form change-form" noValidate onSubmit={onSubmit}>
        <TextField label="Add" id="tags-added" name="added" placeholder="paper, ablation" />
        {present.length > 0 && (
          <fieldset className="tags-removed">
            <legend>Remove</legend>
            {present.map((tag) => (
              <button
                key={tag}
                type="button"
                className="chip"
                aria-pressed={removed.has(tag)}
                onClick={() => toggle(tag)}
              >
                <bdi>{tag}</bdi>{" "}
                <span className="quiet num">{asked.filter((job) => job.tags.includes(tag)).length}</span>
              </button>
            ))}
          </fieldset>
        )}
        {problem && <ProblemBanner problem={problem} />}
        <SaveActions cancel={cancel} busy={busy} onCancel={onClose} />
      </form>
    </Modal>
  );
}
