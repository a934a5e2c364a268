/** A receiver's check of a request that may be signed with either of two secrets, to be copied. */
export function signatureSample(header: (name: string) => string): string {
  const name = (each: string) => header(each).toLowerCase();
  return `import { createHmac, timingSafeEqual } from "node:crypto";

const { WEBHOOK_SECRET, WEBHOOK_SECRET_NEXT } = process.env;
const secrets = [WEBHOOK_SECRET, WEBHOOK_SECRET_NEXT].filter(Boolean);

export function isGenuine(headers, body) {
  const at = String(headers["${name("X-Service-Timestamp")}"]);
  const given = Buffer.from(String(headers["${name("X-Service-Signature")}"]));
  const isSignedWith = (secret) => {
    const signature = createHmac("sha256", secret).update(\`\${at}.\`).update(body).digest("hex");
    const expected = Buffer.from(signature);
    return expected.length === given.length && timingSafeEqual(expected, given);
  };
  const isFresh = Math.abs(Date.now() / 1000 - Number(at)) < 300;
  return isFresh && secrets.some(isSignedWith);
}
`;
}
