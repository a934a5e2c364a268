import { accepts, approval, condition, refuses, type SchemaCase, withStatus } from "./manifests.ts";

export const statuses: SchemaCase[] = [
  accepts("an approval", withStatus(approval())),
  accepts("a denial", withStatus(approval({ decision: "Denied", approvedScopes: undefined }))),
  refuses("a denial with scopes", withStatus(approval({ decision: "Denied" }))),
  refuses(
    "an approval without the field approvedScopes",
    withStatus(approval({ approvedScopes: undefined })),
  ),
  refuses("an approval with an empty list of scopes", withStatus(approval({ approvedScopes: [] }))),
  refuses("an approval without an approver", withStatus(approval({ approver: undefined }))),
  refuses(
    "an approval of a scope that was not requested",
    withStatus(approval({ approvedScopes: ["data:share"] })),
  ),
  accepts(
    "an approval of one scope of a wildcard",
    withStatus(approval({ approvedScopes: ["payments:send"] })),
  ),
  refuses(
    "an approval of a sensitive scope through a wildcard",
    withStatus(approval({ approvedScopes: ["payments:authorize"] })),
  ),
  accepts(
    "the same approval again",
    withStatus({ ...approval(), observedGeneration: 1 }),
    withStatus(approval()),
  ),
  refuses(
    "a change of an approval",
    withStatus(approval({ approvedScopes: ["payments:*"] })),
    withStatus(approval()),
  ),
  refuses("the removal of an approval", withStatus({ observedGeneration: 1 }), withStatus(approval())),
  accepts("a certificate", withStatus({ certID: "cert-1" }), withStatus({ observedGeneration: 1 })),
  accepts("a change of the certificate", withStatus({ certID: "cert-2" }), withStatus({ certID: "cert-1" })),
  accepts(
    "the removal of the certificate",
    withStatus({ observedGeneration: 2 }),
    withStatus({ certID: "cert-1" }),
  ),
  accepts("conditions", withStatus({ conditions: [condition(), condition({ type: "Issued" })] })),
  refuses("a condition twice", withStatus({ conditions: [condition(), condition()] })),
  refuses("a condition that is Maybe", withStatus({ conditions: [condition({ status: "Maybe" })] })),
  refuses("an unknown field in the status", withStatus({ phase: "Ready" })),
];
