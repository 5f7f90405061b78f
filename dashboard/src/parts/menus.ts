const MENUS = "details.pop[open], details.money[open], details.filter-more[open]";

/** Closes menus made of `details` on a click or focus outside of them, on a link in them, or on Escape. */
export function closeMenus(): void {
  document.addEventListener("click", (event) => {
    const clicked = event.target instanceof Element ? event.target : null;
    // The path of the event: a clicked button may be gone by now.
    const path = event.composedPath();
    for (const menu of document.querySelectorAll(MENUS)) {
      if (!path.includes(menu) || clicked?.closest("a")) menu.removeAttribute("open");
    }
  });
  document.addEventListener("focusin", ({ target }) => {
    for (const menu of document.querySelectorAll(MENUS))
      if (target instanceof Element && !menu.contains(target)) menu.removeAttribute("open");
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll(MENUS)) {
      menu.removeAttribute("open");
      menu.querySelector("summary")?.focus();
    }
  });
}
