import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "uplot/dist/uPlot.min.css";
import "./style/index.css";
import { App } from "./app.tsx";
import { listenForKeys } from "./keys.ts";
import { watchNotices } from "./notify/unread.ts";
import { closeMenus } from "./parts/menus.ts";
import { startSync } from "./sync.ts";

startSync();
watchNotices();
closeMenus();
listenForKeys();
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
