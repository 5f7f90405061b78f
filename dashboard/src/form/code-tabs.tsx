import { useState } from "react";
import { CodeBlock } from "../parts/code-block.tsx";
import { asCode, LANGUAGES, type Language } from "./as-code.ts";
import type { SubmitBodyLike } from "./run-values.ts";

/** The same run, started from elsewhere; `wrong` names fields whose values no call may carry. */
export function CodeTabs({ body, wrong }: { body: SubmitBodyLike; wrong: string }) {
  const [language, setLanguage] = useState<Language>("Python");
  return (
    <section className="panel" aria-labelledby="as-code">
      <div className="panel-head">
        <h2 id="as-code">The same run from</h2>
        <fieldset className="segments">
          <legend className="hidden">Language</legend>
          {LANGUAGES.map((each) => (
            <label key={each}>
              <input type="radio" name="language" checked={each === language} onChange={() => setLanguage(each)} />
              <span>{each}</span>
            </label>
          ))}
        </fieldset>
      </div>
      {wrong === "" ? (
        <CodeBlock code={asCode(language, body, location.origin)} name={`the run in ${language}`} />
      ) : (
        <p className="quiet">To correct first: {wrong}.</p>
      )}
    </section>
  );
}
