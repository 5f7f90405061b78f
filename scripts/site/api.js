// The page of the HTTP API follows the colour scheme of the system.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.getElementById("api").setAttribute("theme", dark.matches ? "dark" : "light");
dark.addEventListener("change", follow);
follow();
