/** Why a decision was no allow, in plain words. A reason that is not here is shown as it is. */
export const REASONS: Record<string, string | undefined> = {
  delegation_revoked: "The delegation was revoked",
  delegation_expired: "The delegation had ended",
  not_yet_valid: "The delegation had not begun",
  not_delegated: "The delegation does not have this scope",
  untrusted_root: "Nobody who counts here gave the delegation",
  principal_not_accepted: "The platform does not accept who gave the delegation",
  constraint_denied: "A limit of the delegation was not met",
  constraint_unverifiable: "A limit of the delegation could not be checked",
  constraint_unknown: "A limit of the delegation is not known here",
  delegation_not_authorized: "The agent may not pass the delegation on",
  revocation_state_unavailable: "Whether the delegation is revoked could not be known",
  ceiling_exceeded: "The scope is wider than the account or the platform allows",
};

/** A time span in the largest unit that says it well. */
export function span(seconds: number): string {
  const units: [number, string][] = [
    [86_400, "day"],
    [3_600, "hour"],
    [60, "minute"],
  ];
  const [size, unit] = units.find(([length]) => seconds >= length && seconds % length === 0) ?? [
    60,
    "minute",
  ];
  const number = Math.ceil(seconds / size);
  return `${number} ${unit}${number === 1 ? "" : "s"}`;
}
