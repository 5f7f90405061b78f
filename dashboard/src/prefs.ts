// The user's choices in this browser: colours, and the time zone of displayed times.

import { createStore } from "@xstate/store";
import { useSelector } from "@xstate/store-react";

export type Theme = "system" | "light" | "dark";
export type Times = "local" | "utc";

function stored<T extends string>(name: string, values: readonly T[], otherwise: T): T {
  try {
    const value = localStorage.getItem(name);
    return values.find((each) => each === value) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function keep(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  dispatchEvent(new Event("svc:prefs"));
}

export const THEMES: readonly Theme[] = ["system", "light", "dark"];
export const TIMES: readonly Times[] = ["local", "utc"];

export const prefs = createStore({
  context: {
    theme: stored("svc.theme", THEMES, "system"),
    times: stored("svc.times", TIMES, "local"),
  },
  on: {
    themeChosen: (context, { theme }: { theme: Theme }) => ({ ...context, theme }),
    timesChosen: (context, { times }: { times: Times }) => ({ ...context, times }),
  },
});

export function chooseTheme(theme: Theme): void {
  prefs.trigger.themeChosen({ theme });
  keep("svc.theme", theme);
}

export function chooseTimes(times: Times): void {
  prefs.trigger.timesChosen({ times });
  keep("svc.times", times);
}

export const usePrefs = () => useSelector(prefs, (snapshot) => snapshot.context);

/** Calls the listener when light changes to dark or back; returns a function that removes it. */
export function onTheme(listener: () => void): () => void {
  addEventListener("svc:theme", listener);
  return () => removeEventListener("svc:theme", listener);
}
