import { useEffect, useRef, useState, type Dispatch, type SetStateAction } from "react";
import { newKey } from "./new-key.ts";
import type { Values } from "./run-values.ts";

/** Kept only in this page's memory, because drafts may contain secrets. */
const drafts = new Map<string, Values>();

/**
 * The values of a form; they survive a visit to another page and back. A newly opened form starts from the beginning.
 */
export function useDraft(initial: Values): [Values, Dispatch<SetStateAction<Values>>] {
  const [id] = useState(() => draftOf(history.state) ?? newKey());
  const [values, setValues] = useState(() => drafts.get(id) ?? initial);
  const first = useRef(values);
  useEffect(() => {
    if (values === first.current) return;
    drafts.set(id, values);
    history.replaceState({ draft: id }, "");
  }, [id, values]);
  return [values, setValues];
}

const draftOf = (state: unknown): string | null =>
  typeof state === "object" && state !== null && "draft" in state && typeof state.draft === "string"
    ? state.draft
    : null;
