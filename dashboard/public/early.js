// Runs before anything is drawn: sets the colours, and asks for what the page of this address begins with, while the
// program still loads. A file of its own because the page's policy refuses script within the page.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let choice = null;
    try {
      choice = localStorage.getItem("svc.theme");
    } catch {
      // No storage: the computer's own setting counts.
    }
    const theme = choice === "light" || choice === "dark" ? choice : dark.matches ? "dark" : "light";
    if (document.documentElement.dataset.theme === theme) return;
    document.documentElement.dataset.theme = theme;
    dispatchEvent(new Event("svc:theme"));
  };
  dark.addEventListener("change", apply);
  addEventListener("storage", apply);
  addEventListener("svc:prefs", apply);
  apply();
})();

// `early.ts` hands the answers on. A wrong guess costs one request that nobody needs.
(() => {
  const { pathname, search } = location;
  const query = new URLSearchParams(search);
  const [, place, run] = /^\/(\w*)(?:\/([\w-]+))?\/?$/.exec(pathname) ?? [];
  const asked = [];
  if (place === "" || (place === "runs" && run === undefined)) {
    // Columns and order are drawn from the whole list; every other word of the address may narrow it.
    if ([...query.keys()].every((name) => name === "col" || name === "sort")) asked.push("/jobs?limit=100");
  } else if (place === "runs") {
    asked.push(`/jobs/${run}`);
    const whole = !["errors", "tag", "only"].some((name) => query.has(name));
    if (whole && ["overview", "logs"].includes(query.get("tab") ?? "overview"))
      asked.push(`/jobs/${run}/logs/lines?count=300`);
  }
  const early = {};
  for (const path of asked) {
    early[path] = fetch(path, { cache: "no-store" });
    // Whoever takes the answer learns of the failure.
    early[path].catch(() => undefined);
  }
  globalThis.svcEarly = early;
  let programs = {};
  try {
    programs = JSON.parse(document.querySelector('meta[name="svc-programs"]').content);
  } catch {
    // Not from the build: the program loads its parts by itself.
  }
  const page = run === undefined ? place : place === "runs" ? "run" : run;
  for (const href of Object.hasOwn(programs, page) ? programs[page] : []) {
    document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href }));
  }
})();
