import type { CertificateAnswer } from "../../../delegations/answers.ts";
import { page } from "../../core/page.ts";

/** The signed certificate as a file. */
export const certificateFilePage = page<CertificateAnswer>({
  id: "certificate_file",
  path: "/console/delegations/{cert_id}/certificate.json",
  access: "onboarded",
  operations: ["get_delegation"],
  load: ({ call, params }) => call("get_delegation", { params }),
  file: (_visit, { cert_id, cert_json }) => ({
    name: `${cert_id}.json`,
    type: "application/json",
    content: `${JSON.stringify(cert_json, null, 2)}\n`,
  }),
});
