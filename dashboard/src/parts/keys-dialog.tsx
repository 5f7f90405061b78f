import { useRef } from "react";
import { shortcutsNow } from "../keys.ts";
import { Modal } from "./modal.tsx";

/** Lists the keys that work on this page. */
export function KeysDialog({ onClose }: { onClose: () => void }) {
  const close = useRef<HTMLButtonElement>(null);
  return (
    <Modal titleId="keys-title" first={close} onClose={onClose}>
      <h2 id="keys-title">Keys</h2>
      {shortcutsNow().map(({ group, shortcuts }) => (
        <section key={group} aria-label={group}>
          <h3 className="keys-group">{group}</h3>
          <dl className="keys">
            {shortcuts.map(({ keys, does }) => (
              <div key={keys}>
                <dt>
                  {keys.split(" ").map((key) => (
                    <kbd key={key}>{key}</kbd>
                  ))}
                </dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
      <div className="actions">
        <button ref={close} type="button" className="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Modal>
  );
}
