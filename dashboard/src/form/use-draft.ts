import { useEffect, useRef, useState, type Dispatch, type SetStateAction } from "react";
import { newKey } from "./new-key.ts";
import type { Values } from "./run-values.ts";

/** In this page's memory alone, for there may be secrets in them. */
const drafts = new Map<string, Values>();

/** What stands in a form, also after one looked at another page and came back to it. A form that is opened anew begins anew. */
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
