// The project directory of a run: typed, one of the directories of recent runs, or chosen folder by folder.

import { useEffect, useRef, useState } from "react";
import type { Folder } from "../../../src/schemas/folder.ts";
import type { Problem } from "../../../src/schemas/job.ts";
import { api, asProblem } from "../api.ts";
import { Modal } from "../parts/modal.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { FieldInput, type OneFieldProps } from "./field-input.tsx";
import { recentRuns } from "./recent-runs.ts";

const RECENT_MAX = 8;

export function FolderField(props: OneFieldProps) {
  const { value, onChange } = props;
  const [choosing, setChoosing] = useState(false);
  const recent = useRecentProjects();
  return (
    <div className="field field-wide folder-field">
      <FieldInput {...props} suggestions="recent-projects" placeholder="where svc serve was started" wide />
      <datalist id="recent-projects">
        {recent.map((path) => (
          <option key={path} value={path} />
        ))}
      </datalist>
      <button type="button" className="button small" id="choose-folder" onClick={() => setChoosing(true)}>
        Choose a folder…
      </button>
      {choosing && (
        <FolderDialog
          start={value}
          recent={recent}
          onClose={() => setChoosing(false)}
          onChoose={(path) => {
            onChange(path);
            setChoosing(false);
          }}
        />
      )}
    </div>
  );
}

interface FolderDialogProps {
  /** The first folder; empty for the directory of the control plane. */
  start: string;
  recent: readonly string[];
  onChoose: (path: string) => void;
  onClose: () => void;
}

function FolderDialog({ start, recent, onChoose, onClose }: FolderDialogProps) {
  const close = useRef<HTMLButtonElement>(null);
  const [at, setAt] = useState(start);
  const { folder, problem } = useFolder(at);
  const above = folder?.parent ?? null;
  const open = (name: string) => setAt(`${folder?.path === "/" ? "" : (folder?.path ?? "")}/${name}`);
  return (
    <Modal titleId="folder-title" first={close} after="choose-folder" onClose={onClose}>
      <h2 id="folder-title">Choose the project directory</h2>
      {recent.length > 0 && (
        <section aria-label="Recent">
          <h3 className="keys-group">Recent</h3>
          <ul className="plain folder-list">
            {recent.map((path) => (
              <li key={path}>
                <button type="button" onClick={() => onChoose(path)}>
                  <bdi>{path}</bdi>
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
      <section aria-label="Folders">
        <h3 className="keys-group" aria-live="polite">
          <bdi>{folder?.path ?? (problem ? at : "Reading the folder…")}</bdi>
        </h3>
        {problem && <p className="field-error">{problem.detail}</p>}
        <ul className="plain folder-list">
          {above !== null && (
            <li>
              <button type="button" onClick={() => setAt(above)}>
                One folder up
              </button>
            </li>
          )}
          {folder?.folders.map((name) => (
            <li key={name}>
              <button type="button" onClick={() => open(name)}>
                <bdi>{name}/</bdi>
              </button>
            </li>
          ))}
        </ul>
        {folder && folder.scripts.length > 0 && (
          <p className="quiet small-text">
            Scripts: <bdi>{folder.scripts.slice(0, 6).join(", ")}</bdi>
            {folder.scripts.length > 6 && ` and ${folder.scripts.length - 6} more`}
          </p>
        )}
        {folder?.truncated === true && <p className="quiet small-text">It holds more than is listed here.</p>}
      </section>
      <div className="actions">
        <button
          type="button"
          className="button primary"
          disabled={folder === null}
          onClick={() => folder && onChoose(folder.path)}
        >
          Use this folder
        </button>
        <button ref={close} type="button" className="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </Modal>
  );
}

interface SeenFolder {
  of: string | null;
  folder: Folder | null;
  problem: Problem | null;
}

/** The folder at the path, once it is known; `wait` leaves time to type. */
export function useFolder(path: string, wait = 0): Omit<SeenFolder, "of"> {
  const [seen, setSeen] = useState<SeenFolder>({ of: null, folder: null, problem: null });
  useEffect(() => {
    let gone = false;
    const timer = setTimeout(() => {
      api.folder(path === "" ? null : path).then(
        (folder) => gone || setSeen({ of: path, folder, problem: null }),
        (error: unknown) => gone || setSeen({ of: path, folder: null, problem: asProblem(error) }),
      );
    }, wait);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [path, wait]);
  return seen.of === path ? seen : { folder: null, problem: null };
}

/** The project directories of the last runs, newest first. */
function useRecentProjects(): string[] {
  const { data } = useAnswer(recentRuns);
  const seen = (data ?? []).flatMap(({ spec }) =>
    typeof spec["project_dir"] === "string" ? [spec["project_dir"]] : [],
  );
  return [...new Set(seen)].slice(0, RECENT_MAX);
}
