import { accepts, constrained, delegation, refuses, type SchemaCase } from "./manifests.ts";

export const changedDelegations: SchemaCase[] = [
  accepts("revoking an existing delegation", delegation({ revoked: true }), delegation()),
  accepts(
    "a change of revoked from false to true",
    delegation({ revoked: true }),
    delegation({ revoked: false }),
  ),
  refuses(
    "a change of revoked from true to false",
    delegation({ revoked: false }),
    delegation({ revoked: true }),
  ),
  refuses("removing a revocation", delegation(), delegation({ revoked: true })),
  accepts("suspending an existing delegation", delegation({ suspend: true }), delegation()),
  refuses("added scopes", delegation({ scopes: ["data:read", "payments:*", "data:share"] }), delegation()),
  refuses("removed scopes", delegation({ scopes: ["data:read"] }), delegation()),
  accepts(
    "the same scopes in a different order",
    delegation({ scopes: ["payments:*", "data:read"] }),
    delegation(),
  ),
  refuses("a change of the agent", delegation({ agentRef: { name: "other" } }), delegation()),
  refuses("a change of the platform", delegation({ platformRef: { name: "other" } }), delegation()),
  accepts("an added ttl of null", delegation({ ttl: null }), delegation()),
  refuses("an added ttl", delegation({ ttl: "1h" }), delegation()),
  refuses("a removed ttl", delegation(), delegation({ ttl: "1h" })),
  refuses("a longer ttl", delegation({ ttl: "2h" }), delegation({ ttl: "1h" })),
  refuses("an added expiry", delegation({ expiresAt: "2030-01-31T12:00:00Z" }), delegation()),
  accepts(
    "the same expiry in a different form",
    delegation({ expiresAt: "2030-01-31T13:00:00+01:00" }),
    delegation({ expiresAt: "2030-01-31T12:00:00Z" }),
  ),
  refuses(
    "a change of the expiry",
    delegation({ expiresAt: "2030-01-31T12:00:01Z" }),
    delegation({ expiresAt: "2030-01-31T12:00:00Z" }),
  ),
  refuses("added constraints", constrained({ type: "max_speed_mps", max_mps: 3 }), delegation()),
  refuses("removed constraints", delegation(), constrained({ type: "max_speed_mps", max_mps: 3 })),
  refuses(
    "looser constraints",
    constrained({ type: "max_speed_mps", max_mps: 4 }),
    constrained({ type: "max_speed_mps", max_mps: 3 }),
  ),
  accepts(
    "the same constraints again",
    {
      ...constrained({ type: "max_speed_mps", max_mps: 3 }),
      metadata: { ...delegation().metadata, labels: { a: "b" } },
    },
    constrained({ type: "max_speed_mps", max_mps: 3 }),
  ),
  refuses(
    "a change of the requester",
    delegation({ requestedBy: "joe" }),
    delegation({ requestedBy: "jane" }),
  ),
  refuses("a change of the purpose", delegation({ purpose: "one" }), delegation({ purpose: "two" })),
];
