// A two-step button, for actions that delete something and do not need a dialog.

import { useEffect, useRef, useState } from "react";

interface AskFirstProps {
  /** The question, and the label of the button that confirms. */
  ask: string;
  yes: string;
  label?: string;
  busy?: boolean;
  small?: boolean;
  onYes: () => void;
}

/**
 * A button that asks for confirmation with a second one before it deletes. The focus moves along: to the harmless
 * choice, and back.
 */
export function AskFirst({ ask, yes, label, busy = false, small = false, onYes }: AskFirstProps) {
  const [asking, setAsking] = useState(false);
  const keep = useRef<HTMLButtonElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const before = useRef(asking);
  useEffect(() => {
    if (before.current !== asking) (asking ? keep : opener).current?.focus();
    before.current = asking;
  }, [asking]);
  useEffect(
    () => () => {
      // The deleted element's buttons are gone, so the focus would be lost.
      if (document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
    },
    [],
  );
  const size = small ? " small" : "";
  const act = (what: () => void) => () => {
    if (!busy) what();
  };
  if (!asking)
    return (
      <button
        ref={opener}
        type="button"
        className={`button${size} danger`}
        aria-disabled={busy}
        aria-label={label}
        onClick={act(() => setAsking(true))}
      >
        {ask}
      </button>
    );
  return (
    <>
      <button
        type="button"
        className={`button${size} danger`}
        aria-disabled={busy}
        onClick={act(() => (setAsking(false), onYes()))}
      >
        {yes}
      </button>
      <button ref={keep} type="button" className={`button${size}`} onClick={() => setAsking(false)}>
        Keep
      </button>
    </>
  );
}
