import { useEffect, useRef, type ReactNode, type RefObject } from "react";

interface ModalProps {
  /** Id of the heading that names it. */
  titleId: string;
  wide?: boolean;
  /** The initial focus: the choice that changes nothing. */
  first: RefObject<HTMLElement | null>;
  /** Id of the element to focus if the previously focused element is gone. */
  after?: string;
  onClose: () => void;
  children: ReactNode;
}

/** A dialog over the page. When it closes, the focus returns to its former place, or near it. */
export function Modal({ titleId, wide = false, first, after = "main", onClose, children }: ModalProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const stood = useRef<Element | null>(null);
  useEffect(() => {
    // Kept from the first time: a second run of this effect would find the dialog's own button.
    const before = (stood.current ??= document.activeElement);
    const opened = dialog.current;
    if (opened && !opened.open) opened.showModal();
    first.current?.focus();
    return () => {
      const there = before instanceof HTMLElement && before.isConnected && before !== document.body;
      const near = document.getElementById(after) ?? document.getElementById("main");
      (there ? before : near)?.focus({ preventScroll: true });
    };
  }, [first, after]);
  return (
    <dialog ref={dialog} className={wide ? "dialog dialog-wide" : "dialog"} aria-labelledby={titleId} onClose={onClose}>
      {children}
    </dialog>
  );
}
