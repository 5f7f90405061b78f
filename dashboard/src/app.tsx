// Maps each address to its page, loads pages when they are opened, and handles the keys that work everywhere.

import { useEffect, useRef, useState, type ComponentType } from "react";
import { EVERYWHERE, useKeys } from "./keys.ts";
import { pageProgram } from "./page-program.tsx";
import { RunsPage } from "./pages/runs-page.tsx";
import { MoneyAlarm } from "./parts/money-alarm.tsx";
import { PageGuard } from "./parts/page-guard.tsx";
import { KeysDialog } from "./parts/keys-dialog.tsx";
import { PLACES, StaleNotice, TopBar } from "./parts/top-bar.tsx";
import { useTabIcon } from "./parts/tab-icon.ts";
import { useTitle } from "./parts/title.ts";
import { usePrefs } from "./prefs.ts";
import { Link, navigate, usePlace } from "./router.tsx";
import { loadJob } from "./sync.ts";

const later: (() => Promise<void>)[] = [];
const page = <P extends object, T extends string>(load: () => Promise<Record<T, ComponentType<P>>>, name: T) => {
  const program = pageProgram(load, name, Opening);
  later.push(program.ahead);
  return program;
};

const { Page: RunPage, ahead: runAhead } = page(() => import("./pages/run-page.tsx"), "RunPage");
const { Page: NewRunPage } = page(() => import("./pages/new-run-page.tsx"), "NewRunPage");
const { Page: MachinesPage } = page(() => import("./pages/machines-page.tsx"), "MachinesPage");
const { Page: ConnectPage } = page(() => import("./pages/connect-page.tsx"), "ConnectPage");
const { Page: DataPage } = page(() => import("./pages/data-page.tsx"), "DataPage");
const { Page: CostsPage } = page(() => import("./pages/costs-page.tsx"), "CostsPage");
const { Page: GpusPage } = page(() => import("./pages/gpus-page.tsx"), "GpusPage");
const { Page: ModelsPage } = page(() => import("./pages/models-page.tsx"), "ModelsPage");
const { Page: NotificationsPage } = page(() => import("./pages/notifications-page.tsx"), "NotificationsPage");
const { Page: NotebookPage } = page(() => import("./pages/notebook-page.tsx"), "NotebookPage");

/** The first picture waits so long for the program and the record of a run. */
const FIRST_MAX_MS = 150;

/** Resolves when the page of this address can be drawn at once, instead of a placeholder before it. */
export async function openFirst(): Promise<void> {
  const id = runOf(location.pathname);
  if (id === null) return;
  const tooLong = new Promise((resolve) => setTimeout(resolve, FIRST_MAX_MS));
  await Promise.race([Promise.all([runAhead(), loadJob(id)]), tooLong]);
}

/** The requested page loads first, the others after this delay. */
const LATER_MS = 1_000;

export function App() {
  const { path, query } = usePlace();
  const { times } = usePrefs();
  useTabIcon(path);
  const [keysShown, setKeysShown] = useState(false);
  const shown = useRef(path);
  useEffect(() => {
    // Pages are loaded before they are needed: later the control plane may be away, or replaced by a newer one.
    const timer = setTimeout(() => later.forEach((load) => void load()), LATER_MS);
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => {
    // A new page is announced to screen readers, and the next Tab starts at its beginning.
    if (shown.current !== path) document.getElementById("main")?.focus({ preventScroll: true });
    shown.current = path;
  }, [path]);
  useKeys(EVERYWHERE, [
    { keys: "?", does: "List the keyboard shortcuts", run: () => setKeysShown(true) },
    { keys: "n", does: "New run", run: () => navigate("/new") },
    { keys: "g n", does: "Go to Notifications", run: () => navigate("/notifications") },
    ...PLACES.map(({ path: to, name, key }) => ({ keys: `g ${key}`, does: `Go to ${name}`, run: () => navigate(to) })),
  ]);
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <TopBar onKeys={() => setKeysShown(true)} />
      <main id="main" tabIndex={-1} key={times}>
        <MoneyAlarm />
        <StaleNotice />
        <PageGuard key={path}>
          <Page path={path} query={query} />
        </PageGuard>
      </main>
      {keysShown && <KeysDialog onClose={() => setKeysShown(false)} />}
    </>
  );
}

/** Shown while the program of a page loads. Screen readers need its heading, as on every page. */
function Opening() {
  return (
    <div className="empty">
      <h1>Opening the page…</h1>
    </div>
  );
}

const PAGES: Record<string, ComponentType> = {
  "/machines": MachinesPage,
  "/costs": CostsPage,
  "/gpus": GpusPage,
  "/connect": ConnectPage,
  "/data": DataPage,
  "/models": ModelsPage,
  "/connect/notebook": NotebookPage,
  "/notifications": NotificationsPage,
};

function Page({ path, query }: { path: string; query: URLSearchParams }) {
  if (path === "/" || path === "/runs") return <RunsPage query={query} />;
  if (path === "/new") return <NewRunPage key={query.toString()} query={query} />;
  const run = runOf(path);
  if (run !== null) return <RunPage key={run} id={run} tab={query.get("tab") ?? "overview"} />;
  const Found = PAGES[path];
  return Found ? <Found /> : <NotFound />;
}

/** The run that an address shows. */
function runOf(path: string): string | null {
  const run = /^\/runs\/([^/]+)\/?$/.exec(path)?.[1];
  return run ? decoded(run) : null;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function NotFound() {
  useTitle("Not found");
  return (
    <div className="empty">
      <h1>Page not found</h1>
      <p>
        Check the address. <Link href="/">See all runs</Link>.
      </p>
    </div>
  );
}
