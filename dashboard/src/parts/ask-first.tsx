import { useEffect, useRef, useState } from "react";

interface AskFirstProps {
  /** What is asked for, and what does it. */
  ask: string;
  yes: string;
  label?: string;
  busy?: boolean;
  small?: boolean;
  onYes: () => void;
}

/** A button that takes something away by a second one. The keyboard goes along: to the choice that changes nothing, and back. */
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
      // What was taken away took its buttons along.
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
