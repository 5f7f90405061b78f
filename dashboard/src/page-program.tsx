// Pages whose programs are loaded when they are opened. Not React's `lazy`: once its placeholder was drawn, it stays for
// 300 ms, however soon the program is there.

import { useEffect, useState, type ComponentType } from "react";

const LOST = "The page’s program could not be loaded: svc does not answer, or has been upgraded.";

export interface PageProgram<P> {
  Page: ComponentType<P>;
  /** Loads it ahead; never fails. */
  ahead: () => Promise<void>;
}

/** The page that `load` brings; until then, `Opening`. */
export function pageProgram<P extends object, T extends string>(
  load: () => Promise<Record<T, ComponentType<P>>>,
  name: T,
  Opening: ComponentType,
): PageProgram<P> {
  let found: ComponentType<P> | null = null;
  const read = async () => void (found = (await load())[name]);
  function Page(props: P) {
    const [, setThere] = useState(found !== null);
    const [lost, setLost] = useState(false);
    useEffect(() => {
      let gone = false;
      read().then(
        () => gone || setThere(true),
        () => gone || setLost(true),
      );
      return () => void (gone = true);
    }, []);
    const Found = found;
    if (Found) return <Found {...props} />;
    if (lost) throw new Error(LOST);
    return <Opening />;
  }
  return { Page, ahead: () => read().catch(() => undefined) };
}
