import { useEffect, useRef } from "react";
import { NewRunPage } from "./pages/new-run-page.tsx";
import { RunPage } from "./pages/run-page.tsx";
import { RunsPage } from "./pages/runs-page.tsx";
import { TopBar } from "./parts/top-bar.tsx";
import { useTitle } from "./parts/title.ts";
import { Link, usePlace } from "./router.tsx";

export function App() {
  const { path, query } = usePlace();
  const shown = useRef(path);
  useEffect(() => {
    // A new page is announced, and the next Tab starts at its beginning.
    if (shown.current !== path) document.getElementById("main")?.focus({ preventScroll: true });
    shown.current = path;
  }, [path]);
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <TopBar />
      <main id="main" tabIndex={-1}>
        <Page path={path} query={query} />
      </main>
    </>
  );
}

function Page({ path, query }: { path: string; query: URLSearchParams }) {
  if (path === "/" || path === "/runs") return <RunsPage query={query} />;
  if (path === "/new") return <NewRunPage key={query.toString()} query={query} />;
  const run = /^\/runs\/([^/]+)\/?$/.exec(path)?.[1];
  if (run) return <RunPage key={run} id={decoded(run)} tab={query.get("tab") ?? "overview"} />;
  return <NotFound />;
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
      <h1>There is nothing here</h1>
      <p>
        The address may be mistyped. <Link href="/">See all runs</Link>.
      </p>
    </div>
  );
}
