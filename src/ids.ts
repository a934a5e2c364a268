import { uuidv7 } from "uuidv7";

const uuidText = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const keyIdText = /^[0-9a-f]{32}$/;

/** Whether a text is a UUID in lower case. Anything else names nothing and never reaches a `uuid` column. */
export function isUuid(text: string): boolean {
  return uuidText.test(text);
}

/** Whether a text has the form of an agent's or a human's id: 32 lower-case hex digits. */
export function isKeyId(text: string): boolean {
  return keyIdText.test(text);
}

/** A new id of a resource: UUID v7, so ids grow with time. */
export function newId(): string {
  return uuidv7();
}

/** A new id of a delegation request. */
export function newRequestId(): string {
  return `req-${uuidv7()}`;
}

/** A new id of a certificate (specification §2: `cert-<uuid>`). */
export function newCertificateId(): string {
  return `cert-${uuidv7()}`;
}

/** Whether a text has the form of a delegation request's id. */
export function isRequestId(text: string): boolean {
  return text.startsWith("req-") && isUuid(text.slice(4));
}

/** Whether a text has the form of a certificate's id. */
export function isCertificateId(text: string): boolean {
  return text.startsWith("cert-") && isUuid(text.slice(5));
}
