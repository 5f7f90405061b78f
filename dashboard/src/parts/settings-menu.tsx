import { chooseTheme, chooseTimes, THEMES, TIMES, usePrefs } from "../prefs.ts";

const THEME_WORDS = { system: "System", light: "Light", dark: "Dark" } as const;
const TIME_WORDS = { local: "Local", utc: "UTC" } as const;

/** Colours, time zone, keys: kept in this browser. */
export function SettingsMenu({ onKeys }: { onKeys: () => void }) {
  const { theme, times } = usePrefs();
  return (
    <details className="pop settings">
      <summary className="icon-button" aria-label="Settings" title="Settings">
        <svg viewBox="0 0 20 20" aria-hidden="true">
          <path d="M4 6h12M4 10h12M4 14h12" />
          <circle cx="8" cy="6" r="2" />
          <circle cx="13" cy="10" r="2" />
          <circle cx="6.5" cy="14" r="2" />
        </svg>
      </summary>
      <div className="pop-body settings-body">
        <Choice name="theme" title="Colours" values={THEMES} words={THEME_WORDS} value={theme} choose={chooseTheme} />
        <Choice name="times" title="Times" values={TIMES} words={TIME_WORDS} value={times} choose={chooseTimes} />
        <button type="button" className="button small" onClick={onKeys}>
          Keys <kbd>?</kbd>
        </button>
        <a className="button small" href="/docs/">
          Documentation
        </a>
      </div>
    </details>
  );
}

interface ChoiceProps<T extends string> {
  name: string;
  title: string;
  values: readonly T[];
  words: Record<T, string>;
  value: T;
  choose: (value: T) => void;
}

function Choice<T extends string>({ name, title, values, words, value, choose }: ChoiceProps<T>) {
  return (
    <fieldset className="segments">
      <legend>{title}</legend>
      {values.map((each) => (
        <label key={each}>
          <input type="radio" name={name} checked={each === value} onChange={() => choose(each)} />
          <span>{words[each]}</span>
        </label>
      ))}
    </fieldset>
  );
}
