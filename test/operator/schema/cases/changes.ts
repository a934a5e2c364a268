import { accepts, constrained, delegation, refuses, type SchemaCase } from "./manifests.ts";

export const changedDelegations: SchemaCase[] = [
  accepts("revoking later", delegation({ revoked: true }), delegation()),
  accepts(
    "revoking later what was not revoked",
    delegation({ revoked: true }),
    delegation({ revoked: false }),
  ),
  refuses("taking a revocation back", delegation({ revoked: false }), delegation({ revoked: true })),
  refuses("removing a revocation", delegation(), delegation({ revoked: true })),
  accepts("suspending later", delegation({ suspend: true }), delegation()),
  refuses(
    "more scopes later",
    delegation({ scopes: ["data:read", "payments:*", "data:share"] }),
    delegation(),
  ),
  refuses("fewer scopes later", delegation({ scopes: ["data:read"] }), delegation()),
  accepts("the scopes in another order", delegation({ scopes: ["payments:*", "data:read"] }), delegation()),
  refuses("another agent later", delegation({ agentRef: { name: "other" } }), delegation()),
  refuses("another platform later", delegation({ platformRef: { name: "other" } }), delegation()),
  accepts("a life that is null later", delegation({ ttl: null }), delegation()),
  refuses("a life later", delegation({ ttl: "1h" }), delegation()),
  refuses("no life later", delegation(), delegation({ ttl: "1h" })),
  refuses("a longer life later", delegation({ ttl: "2h" }), delegation({ ttl: "1h" })),
  refuses("an end later", delegation({ expiresAt: "2030-01-31T12:00:00Z" }), delegation()),
  accepts(
    "the same end written differently",
    delegation({ expiresAt: "2030-01-31T13:00:00+01:00" }),
    delegation({ expiresAt: "2030-01-31T12:00:00Z" }),
  ),
  refuses(
    "another end later",
    delegation({ expiresAt: "2030-01-31T12:00:01Z" }),
    delegation({ expiresAt: "2030-01-31T12:00:00Z" }),
  ),
  refuses("constraints later", constrained({ type: "max_speed_mps", max_mps: 3 }), delegation()),
  refuses("no constraints later", delegation(), constrained({ type: "max_speed_mps", max_mps: 3 })),
  refuses(
    "looser constraints later",
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
  refuses("another who asks", delegation({ requestedBy: "joe" }), delegation({ requestedBy: "jane" })),
];
