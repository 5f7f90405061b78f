// Maps each address to its page, loads pages when they are opened, and handles the keys that work everywhere.

import { lazy, Suspense, useEffect, useRef, useState, type ComponentType } from "react";
import { EVERYWHERE, useKeys } from "./keys.ts";
import { RunsPage } from "./pages/runs-page.tsx";
import { MoneyAlarm } from "./parts/money-alarm.tsx";
import { PageGuard } from "./parts/page-guard.tsx";
import { KeysDialog } from "./parts/keys-dialog.tsx";
import { PLACES, StaleNotice, TopBar } from "./parts/top-bar.tsx";
import { useTabIcon } from "./parts/tab-icon.ts";
import { useTitle } from "./parts/title.ts";
import { usePrefs } from "./prefs.ts";
import { Link, navigate, usePlace } from "./router.tsx";

const later: (() => Promise<unknown>)[] = [];
const page = <P, T extends string>(load: () => Promise<Record<T, ComponentType<P>>>, name: T) => {
  later.push(load);
  return lazy(() =>
    load().then(
      (module) => ({ default: module[name] }),
      () =>
        Promise.reject(new Error("The page’s program could not be loaded: svc does not answer, or has been upgraded.")),
    ),
  );
};

const RunPage = page(() => import("./pages/run-page.tsx"), "RunPage");
const NewRunPage = page(() => import("./pages/new-run-page.tsx"), "NewRunPage");
const MachinesPage = page(() => import("./pages/machines-page.tsx"), "MachinesPage");
const ConnectPage = page(() => import("./pages/connect-page.tsx"), "ConnectPage");
const DataPage = page(() => import("./pages/data-page.tsx"), "DataPage");
const CostsPage = page(() => import("./pages/costs-page.tsx"), "CostsPage");
const GpusPage = page(() => import("./pages/gpus-page.tsx"), "GpusPage");
const ModelsPage = page(() => import("./pages/models-page.tsx"), "ModelsPage");
const NotificationsPage = page(() => import("./pages/notifications-page.tsx"), "NotificationsPage");
const NotebookPage = page(() => import("./pages/notebook-page.tsx"), "NotebookPage");

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
    const timer = setTimeout(() => later.forEach((load) => void load().catch(() => undefined)), LATER_MS);
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
          <Suspense fallback={<Opening />}>
            <Page path={path} query={query} />
          </Suspense>
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
  const run = /^\/runs\/([^/]+)\/?$/.exec(path)?.[1];
  if (run) return <RunPage key={run} id={decoded(run)} tab={query.get("tab") ?? "overview"} />;
  const Found = PAGES[path];
  return Found ? <Found /> : <NotFound />;
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
