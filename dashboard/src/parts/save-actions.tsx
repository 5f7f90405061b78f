import type { RefObject } from "react";

interface SaveActionsProps {
  cancel: RefObject<HTMLButtonElement | null>;
  busy: boolean;
  onCancel: () => void;
}

/** The end of a form in a dialog: Cancel, which has the focus first, and Save. */
export const SaveActions = ({ cancel, busy, onCancel }: SaveActionsProps) => (
  <div className="actions">
    <button ref={cancel} type="button" className="button" onClick={onCancel}>
      Cancel
    </button>
    <button type="submit" className="button primary" aria-disabled={busy}>
      {busy ? "Saving…" : "Save"}
    </button>
  </div>
);
