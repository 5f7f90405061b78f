// The dialog that adds tags to the selected runs, or removes them.

import { useRef, useState } from "react";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { tagsIn } from "../../../src/schemas/tag-words.ts";
import { plural } from "../format.ts";
import { TextField, useSmallForm } from "../form/small-form.tsx";
import { ProblemBanner } from "../parts/banner.tsx";
import { Modal } from "../parts/modal.tsx";
import { runApi } from "../run/run-api.ts";
import { store } from "../store.ts";

export function TagsDialog({ jobs, onClose }: { jobs: readonly JobRecord[]; onClose: () => void }) {
  const cancel = useRef<HTMLButtonElement>(null);
  const [asked] = useState(jobs);
  const [removed, setRemoved] = useState<ReadonlySet<string>>(new Set());
  const present = [...new Set(asked.flatMap((job) => job.tags))].toSorted();
  const toggle = (tag: string) =>
    setRemoved((tags) => new Set(tags.has(tag) ? [...tags].filter((each) => each !== tag) : [...tags, tag]));
  const { ref, busy, problem, onSubmit } = useSmallForm(async (text) => {
    const added = tagsIn(text("added"));
    const changes = asked.flatMap((job) => {
      const tags = [...new Set([...job.tags, ...added])].filter((tag) => !removed.has(tag));
      return tags.join(",") === job.tags.join(",") ? [] : [runApi.change(job.id, { tags })];
    });
    const done = await Promise.allSettled(changes);
    store.trigger.jobsLoaded({ found: done.flatMap((each) => (each.status === "fulfilled" ? [each.value] : [])) });
    const failed = done.find((each) => each.status === "rejected");
    if (failed) throw failed.reason;
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
        <div className="actions">
          <button ref={cancel} type="button" className="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="button primary" aria-disabled={busy}>
            {busy ? "Saving…" : "Save"}
          </button>
        </div>
      </form>
    </Modal>
  );
}
