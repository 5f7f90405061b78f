// The Connect page: a card for each provider and service with a credential.

import { REMOTE_NAMES, THIS_COMPUTER } from "../../../src/providers/descriptors.ts";
import { SERVICE_NAMES } from "../../../src/schemas/credential-blocks.ts";
import { CredentialCard } from "../connect/credential-card.tsx";
import { NotifySection } from "../connect/notify-section.tsx";
import { ProblemBanner } from "../parts/banner.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { useTitle } from "../parts/title.ts";
import { api } from "../api.ts";
import { Link, navigate, usePlace } from "../router.tsx";

export function ConnectPage() {
  useTitle("Connect");
  const { query } = usePlace();
  const open = query.get("open");
  const { data, problem, reload } = useAnswer(async () => {
    const [credentials, { providers }] = await Promise.all([api.credentials(), api.providers()]);
    return { credentials, providers };
  });
  const toggle = (name: string, shown: boolean) => {
    if (shown === (open === name)) return;
    navigate(shown ? `/connect?open=${name}` : "/connect", { replace: true, keepScroll: true });
  };
  return (
    <div className="page page-form">
      <div className="page-head">
        <h1>Connect</h1>
      </div>
      <p className="quiet prose">
        Keys stay on this computer, readable by you alone; of a secret no more than its last four characters is ever
        shown. Values from the environment take precedence and are read-only here.
      </p>
      {problem && <ProblemBanner problem={problem} />}
      {data === null && !problem && <p className="quiet pad">Reading the credentials…</p>}
      {data && (
        <>
          <h2 className="section">Machines</h2>
          <div className="panel connect-local">
            <span className="connect-name">
              <strong>{THIS_COMPUTER}</strong> <span className="quiet">this computer</span>
            </span>
            <span className="pill pill-succeeded">always available, free</span>
          </div>
          {REMOTE_NAMES.map((name) => (
            <CredentialCard
              key={name}
              name={name}
              given={data.credentials.providers[name] ?? {}}
              info={data.providers.find((each) => each.name === name)}
              open={open === name}
              onToggle={(shown) => toggle(name, shown)}
              onChange={reload}
            />
          ))}
          <h2 className="section">Services</h2>
          {SERVICE_NAMES.map((name) => (
            <CredentialCard
              key={name}
              name={name}
              given={data.credentials[name]}
              info={undefined}
              open={open === name}
              onToggle={(shown) => toggle(name, shown)}
              onChange={reload}
            />
          ))}
          <NotifySection open={open} onToggle={toggle} />
          <p className="quiet small-text pad">
            To connect a notebook, run <Link href="/connect/notebook">a cell</Link> in it.
          </p>
        </>
      )}
    </div>
  );
}
