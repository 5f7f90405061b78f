import { useState } from "react";
import { CodeBlock } from "../parts/code-block.tsx";
import { asCode, LANGUAGES, type Language } from "./as-code.ts";
import type { SubmitBodyLike } from "./run-values.ts";

/**
 * The same run, started from a program; `wrong` names fields whose values cannot be sent. `projectDir` is the control
 * plane's default directory if the form names none: another program starts in another directory, so the snippets name
 * it.
 */
export function CodeTabs(props: { body: SubmitBodyLike; projectDir: string | null; wrong: string }) {
  const { body, projectDir, wrong } = props;
  const named =
    body.spec["project_dir"] === undefined && projectDir !== null
      ? { ...body, spec: { ...body.spec, project_dir: projectDir } }
      : body;
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
        <CodeBlock code={asCode(language, named, location.origin)} name={`the run in ${language}`} />
      ) : (
        <p className="quiet">Correct these fields first: {wrong}.</p>
      )}
    </section>
  );
}
