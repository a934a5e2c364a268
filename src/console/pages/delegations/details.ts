import type { CertificateAnswer } from "../../../delegations/answers.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Visit } from "../../core/page.ts";
import { copyBlock } from "../../elements/copyable.ts";
import { facts } from "../../elements/facts.ts";
import { time } from "../../elements/time.ts";

/** The certificate as a person reads it, and as it is signed. */
export function certificateDetails(visit: Visit, certificate: CertificateAnswer): Html {
  const words = visit.texts.delegation;
  const { cert_id, issued_at, expires_at, cert_json } = certificate;
  const mono = (text: unknown) => html`<span class="mono">${String(text)}</span>`;
  return html`<section class="card"><h2>${words.details}</h2>
    ${facts([
      [words.serial, mono(cert_id)],
      [words.version, String(cert_json.version)],
      [words.issuer, mono(cert_json.issuer_id)],
      [words.subject, mono(cert_json.subject_id)],
      [words.algorithms, words.hybrid],
      [words.from, time(issued_at)],
      [words.until, expires_at === null ? words.forever : time(expires_at)],
    ])}
    <p class="actions"><a href=${visit.at(`/delegations/${cert_id}/certificate.json`)}>${words.file}</a></p>
    <details><summary>${words.raw}</summary>
      ${copyBlock(visit.texts, { id: "certificate", text: JSON.stringify(cert_json, null, 2) })}</details>
  </section>`;
}
