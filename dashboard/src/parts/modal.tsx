import { useEffect, useRef, type ReactNode, type RefObject } from "react";

interface ModalProps {
  /** Id of the heading that names it. */
  titleId: string;
  wide?: boolean;
  /** What the keyboard stands on at first: the choice that changes nothing. */
  first: RefObject<HTMLElement | null>;
  onClose: () => void;
  children: ReactNode;
}

/** A question over the page. When it goes, the keyboard is back where it was, if that is still there. */
export function Modal({ titleId, wide = false, first, onClose, children }: ModalProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    const opened = dialog.current;
    if (opened && !opened.open) opened.showModal();
    first.current?.focus();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, [first]);
  return (
    <dialog ref={dialog} className={wide ? "dialog dialog-wide" : "dialog"} aria-labelledby={titleId} onClose={onClose}>
      {children}
    </dialog>
  );
}
