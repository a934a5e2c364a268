import type { Names } from "../../input/names.ts";
import type { Access, Route } from "../../route.ts";

type Proof = "session" | "refresh" | "api_key" | "operator";

const byAccess: Record<Access, readonly Proof[]> = {
  public: [],
  session: ["session"],
  api_key: ["api_key"],
  account: ["api_key", "session"],
  operator: ["operator"],
};

/**
 * What a 401 of a route says about how to prove the caller (`WWW-Authenticate`, RFC 9110 §11.6.1): `ApiKey`
 * with the header that carries the key, `Cookie` with the name of the cookie, `Bearer` for the operator. A
 * browser asks its user for a password at none of these. `undefined` for a route that demands nothing.
 */
export function challengesOf(route: Route, names: Names): string | undefined {
  const demanded = (route.demands ?? []).filter((name) => name !== "csrf");
  const proofs = [...byAccess[route.access], ...demanded];
  return proofs.length === 0 ? undefined : proofs.map((proof) => challengeOf(proof, names)).join(", ");
}

function challengeOf(proof: Proof, names: Names): string {
  const realm = `realm="${names.word}"`;
  if (proof === "operator") return `Bearer ${realm}`;
  if (proof === "api_key") return `ApiKey ${realm}, header="${names.header("X-Service-API-Key")}"`;
  return `Cookie ${realm}, cookie-name="${names.cookie(proof)}"`;
}
