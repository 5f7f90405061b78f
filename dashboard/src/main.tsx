import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "uplot/dist/uPlot.min.css";
import "./style/index.css";
import { App, openFirst } from "./app.tsx";
import { listenForKeys } from "./keys.ts";
import { watchNotices } from "./notify/unread.ts";
import { closeMenus } from "./parts/menus.ts";
import { startSync } from "./sync.ts";

void startSync();
watchNotices();
closeMenus();
listenForKeys();
const root = document.getElementById("root");
if (root) {
  void openFirst().then(() =>
    createRoot(root).render(
      <StrictMode>
        <App />
      </StrictMode>,
    ),
  );
}
