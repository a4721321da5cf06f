import type { GroundlineClient } from "groundline-client";
import { OwnQuotas } from "../documents/usage";
import { texts } from "../texts";
import { operations } from "../texts/operations";
import { AuditSection } from "./audit";
import { ErasuresSection } from "./erasures";
import { IndexesSection } from "./indexes";
import { JobsSection } from "./jobs";
import { KeysSection } from "./keys";
import { Section } from "./section";
import { Services } from "./services";
import { SourcesSection } from "./sources";
import { SpendingSection } from "./spending";

/** Commands for what the API does not give. */
const COMMANDS = { "groundline audit verify": operations.ofAudit, "groundline doctor": operations.ofDoctor };

/** How the installation does, for those who keep it going. */
export function Operations({ client }: { client: GroundlineClient }) {
  return (
    <main class="wide" id="operations">
      <h2>{texts.operations}</h2>
      <Services />
      <JobsSection client={client} />
      <SourcesSection client={client} />
      <IndexesSection client={client} />
      <Section id="own-quotas" title={operations.ownQuotas}>
        <OwnQuotas client={client} />
      </Section>
      <ErasuresSection client={client} />
      <SpendingSection client={client} />
      <KeysSection client={client} />
      <AuditSection client={client} />
      <Section id="by-command" title={operations.byCommand} hint={operations.byCommandHint}>
        <dl class="facts">
          {Object.entries(COMMANDS).map(([command, about]) => (
            <>
              <dt>
                <code>{command}</code>
              </dt>
              <dd>{about}</dd>
            </>
          ))}
        </dl>
      </Section>
    </main>
  );
}
