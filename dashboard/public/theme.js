// Sets the colours before anything is drawn. A file of its own because the page's policy refuses script within the page.
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
