import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "uplot/dist/uPlot.min.css";
import "./style/index.css";
import { App } from "./app.tsx";
import { closeMenus } from "./parts/menus.ts";
import { startSync } from "./sync.ts";

startSync();
closeMenus();
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
