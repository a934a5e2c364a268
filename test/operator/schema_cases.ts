import { FOREIGN_PORTS } from "../../src/events/webhooks/callbacks/url_form.ts";

type Manifest = {
  apiVersion: string;
  kind: string;
  metadata: Record<string, unknown>;
  spec?: Record<string, unknown>;
  status?: Record<string, unknown>;
};

/**
 * One object that is applied (over `previous`, when there is one), and whether it is taken. A `status` is
 * written through the status subresource.
 */
export type SchemaCase = { name: string; object: Manifest; previous?: Manifest; accepted: boolean };

type Changes = Record<string, unknown>;

function manifest(kind: string, spec: Changes, changes: Changes): Manifest {
  const merged = Object.entries({ ...spec, ...changes }).filter(([, value]) => value !== undefined);
  return {
    apiVersion: "deputize.io/v1alpha1",
    kind,
    metadata: { name: "example", namespace: "default" },
    spec: Object.fromEntries(merged),
  };
}

const platform = (changes: Changes = {}): Manifest =>
  manifest(
    "Platform",
    {
      displayName: "Shop",
      surfaceType: "agentic_api",
      defaultAllowedScopes: ["data:read", "payments:*", "comms:*", "custom:orders:refund"],
    },
    changes,
  );
const principal = (changes: Changes = {}): Changes => ({
  humanID: "0123456789abcdef0123456789abcdef",
  scopes: ["data:read", "custom:orders:refund"],
  ...changes,
});
const principals = (count: number): Changes[] =>
  Array.from({ length: count }, (_, n) => principal({ humanID: String(n).padStart(32, "0") }));
const agent = (changes: Changes = {}): Manifest =>
  manifest("Agent", { platformRef: { name: "shop" }, agentType: "api_agent" }, changes);
const delegation = (changes: Changes = {}): Manifest =>
  manifest(
    "Delegation",
    { platformRef: { name: "shop" }, agentRef: { name: "bot" }, scopes: ["data:read", "payments:*"] },
    changes,
  );
const withMetadata = (metadata: Changes, object = platform()): Manifest => ({
  ...object,
  metadata: { ...object.metadata, ...metadata },
});
const withStatus = (status: Changes, object = delegation()): Manifest => ({ ...object, status });
const constrained = (...constraints: Changes[]): Manifest => delegation({ constraints });
const approval = (changes: Changes = {}): Changes => ({
  approval: {
    decision: "Approved",
    approvedScopes: ["data:read"],
    approver: { username: "jane", uid: "1" },
    observedGeneration: 1,
    ...changes,
  },
});
const condition = (changes: Changes = {}): Changes => ({
  type: "Ready",
  status: "True",
  reason: "Active",
  message: "",
  lastTransitionTime: "2026-01-01T00:00:00Z",
  ...changes,
});

const accepts = (name: string, object: Manifest, previous?: Manifest): SchemaCase => ({
  name: `accepts ${name}`,
  object,
  accepted: true,
  ...(previous && { previous }),
});
const refuses = (name: string, object: Manifest, previous?: Manifest): SchemaCase => ({
  name: `refuses ${name}`,
  object,
  accepted: false,
  ...(previous && { previous }),
});

const letters = (count: number): string => "a".repeat(count);
const scopes = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `custom:area:s${index}`);

const metadata: SchemaCase[] = [
  accepts("a name of 63 characters", withMetadata({ name: letters(63) })),
  refuses("a name of 64 characters", withMetadata({ name: letters(64) })),
  refuses("a name in upper case", withMetadata({ name: "Shop" })),
  accepts("a name with dots", withMetadata({ name: "shop.example" })),
  refuses("a name ending in a dash", withMetadata({ name: "shop-" })),
  refuses("an unknown field in metadata", withMetadata({ colour: "red" })),
  accepts("labels", withMetadata({ labels: { "example.test/team": "shop.a_1", empty: "" } })),
  refuses("a label with a space", withMetadata({ labels: { team: "shop team" } })),
  refuses("a label of 64 characters", withMetadata({ labels: { team: letters(64) } })),
  refuses("a label key with two slashes", withMetadata({ labels: { "a/b/c": "x" } })),
  refuses("a label key with a prefix in upper case", withMetadata({ labels: { "Example/b": "x" } })),
  refuses("a label that is a number", withMetadata({ labels: { team: 1 } })),
  accepts("annotations of any text", withMetadata({ annotations: { note: "any thing: at all\n" } })),
  refuses("an annotation key with a space", withMetadata({ annotations: { "a b": "x" } })),
];

const platforms: SchemaCase[] = [
  accepts("a platform", platform()),
  accepts(
    "a platform with everything",
    platform({
      description: "Takes orders.\nAnd pays.",
      callbackUrl: "https://shop.example.test/hooks?x=1",
      credentialsSecretName: "shop.keys",
      keyRotation: { every: "720h", grace: "1h30m" },
      deletionPolicy: "Delete",
      suspend: false,
    }),
  ),
  refuses("a platform without a spec", { ...platform(), spec: undefined } as unknown as Manifest),
  refuses("a platform without a name for people", platform({ displayName: undefined })),
  refuses("an empty name for people", platform({ displayName: "" })),
  accepts("a name for people of 120 characters", platform({ displayName: "é".repeat(120) })),
  refuses("a name for people of 121 characters", platform({ displayName: "é".repeat(121) })),
  refuses("a name for people with a line break", platform({ displayName: "a\nb" })),
  refuses("a name for people that ends in a space", platform({ displayName: "Shop " })),
  ...[
    ...["\u202e", "\u200b", "\u00ad", "\u2066", "\ufeff", "\u{e0041}", "\u2028"],
    ...["\u00a0", "\u2800", "\u034f", "\ue000", "\u{1d159}", "\u{13430}", "\u{f0000}"],
  ].map((hidden) =>
    refuses(
      `a name for people with ${JSON.stringify(hidden)} (${hidden.codePointAt(0)?.toString(16)})`,
      platform({ displayName: `Sh${hidden}op` }),
    ),
  ),
  accepts("a name for people with a joiner", platform({ displayName: "\u0645\u06cc\u200c\u062e" })),
  accepts("a name for people with an emoji", platform({ displayName: "Shop \u{1f469}\u200d\u{1f4bb}" })),
  refuses("a name for people of spaces", platform({ displayName: "  " })),
  refuses("a name for people that begins with a mark", platform({ displayName: "\u0301Shop" })),
  accepts(
    "a name for people with four marks on a letter",
    platform({ displayName: `o${"\u0301".repeat(4)}p` }),
  ),
  refuses(
    "a name for people with five marks on a letter",
    platform({ displayName: `o${"\u0301".repeat(5)}p` }),
  ),
  refuses("a description of spaces and line breaks", platform({ description: " \n " })),
  accepts("an empty description", platform({ description: "" })),
  refuses("a description with a bidi control", platform({ description: "a\u202eb" })),
  accepts("a name for people of one letter", platform({ displayName: "S" })),
  refuses("a name for people that is a number", platform({ displayName: 7 })),
  accepts("a description that is null", platform({ description: null })),
  accepts("a null in a nested object", platform({ keyRotation: { every: "720h", grace: null } })),
  refuses("a name for people that is null", platform({ displayName: null })),
  refuses("an unknown field that is null", platform({ colour: null })),
  refuses("a scope that is null", platform({ defaultAllowedScopes: ["data:read", null] })),
  refuses("a spec that is null", { ...platform(), spec: null } as unknown as Manifest),
  refuses("a description with a NUL", platform({ description: "a\u0000b" })),
  refuses("an unknown field", platform({ callbackURL: "https://shop.example.test" })),
  refuses("an unknown field in a nested object", platform({ keyRotation: { every: "720h", always: true } })),
  refuses("an unknown surface", platform({ surfaceType: "smoke_signals" })),
  refuses("scopes that are not a list", platform({ defaultAllowedScopes: "data:read" })),
  refuses("no scopes", platform({ defaultAllowedScopes: [] })),
  refuses("a scope twice", platform({ defaultAllowedScopes: ["data:read", "data:read"] })),
  accepts("64 scopes", platform({ defaultAllowedScopes: scopes(64) })),
  refuses("65 scopes", platform({ defaultAllowedScopes: scopes(65) })),
  refuses("a scope without a colon", platform({ defaultAllowedScopes: ["data"] })),
  refuses("a scope with a space", platform({ defaultAllowedScopes: ["custom:a b"] })),
  accepts("a scope of 256 characters", platform({ defaultAllowedScopes: [`custom:a:${letters(247)}`] })),
  refuses("a scope of 257 characters", platform({ defaultAllowedScopes: [`custom:a:${letters(248)}`] })),
  accepts(
    "custom scopes of two to four parts",
    platform({ defaultAllowedScopes: ["custom:a:b", "custom:A.1:b_2:c-3", "custom:a:b:c:*", "custom:a:*"] }),
  ),
  refuses("a custom scope of one part", platform({ defaultAllowedScopes: ["custom:refund"] })),
  refuses("a custom scope of five parts", platform({ defaultAllowedScopes: ["custom:a:b:c:d:e"] })),
  refuses("a custom wildcard in the middle", platform({ defaultAllowedScopes: ["custom:*:refund"] })),
  refuses("a custom wildcard in a part", platform({ defaultAllowedScopes: ["custom:orders:re*"] })),
  refuses("a custom wildcard alone", platform({ defaultAllowedScopes: ["custom:*"] })),
  refuses("an empty part", platform({ defaultAllowedScopes: ["custom:orders::refund"] })),
  refuses("a part that begins with a dot", platform({ defaultAllowedScopes: ["custom:orders:.refund"] })),
  refuses("a custom scope with a slash", platform({ defaultAllowedScopes: ["custom:orders:a/b"] })),
  refuses(
    "a callback URL with a user interface scheme",
    platform({ callbackUrl: "ftp://shop.example.test" }),
  ),
  refuses("a callback URL with a fragment", platform({ callbackUrl: "https://shop.example.test/#a" })),
  refuses("a callback URL with a backslash", platform({ callbackUrl: "https://shop.example.test/a\\b" })),
  ...[...FOREIGN_PORTS].map((port) =>
    refuses(
      `a callback URL to port ${port}`,
      platform({ callbackUrl: `https://shop.example.test:${port}/` }),
    ),
  ),
  refuses("such a port after zeros", platform({ callbackUrl: "https://shop.example.test:0022" })),
  accepts("a callback URL to port 8443", platform({ callbackUrl: "https://shop.example.test:8443/a:22/" })),
  refuses("a callback URL with a space", platform({ callbackUrl: "https://shop.example.test/ a" })),
  refuses("a Secret name with a slash", platform({ credentialsSecretName: "a/b" })),
  refuses("a Secret name that climbs", platform({ credentialsSecretName: ".." })),
  accepts("no accepted principal", platform({ acceptedPrincipals: [] })),
  accepts("1,000 accepted principals", platform({ acceptedPrincipals: principals(1000) })),
  refuses("1,001 accepted principals", platform({ acceptedPrincipals: principals(1001) })),
  accepts(
    "an accepted principal with an end",
    platform({ acceptedPrincipals: [principal({ acceptedUntil: "2030-01-01T00:00:00Z" })] }),
  ),
  refuses(
    "an accepted principal with an end that is no moment",
    platform({ acceptedPrincipals: [principal({ acceptedUntil: "tomorrow" })] }),
  ),
  refuses("an accepted principal twice", platform({ acceptedPrincipals: [principal(), principal()] })),
  accepts(
    "a principal with scopes of every form",
    platform({
      acceptedPrincipals: [
        principal({ scopes: ["data:*", "comms:email:read", "custom:a:b", "custom:a.1:b:c:d"] }),
      ],
    }),
  ),
  ...[
    "custom:refund",
    "custom:a:b:c:d:e",
    "custom:a::b",
    "custom:a:b/c",
    "custom:a:*",
    "custom:*",
    "custom:a:b*",
  ].map((scope) =>
    refuses(`a principal with ${scope}`, platform({ acceptedPrincipals: [principal({ scopes: [scope] })] })),
  ),
  refuses("anybody as a principal", platform({ acceptedPrincipals: [principal({ humanID: "*" })] })),
  refuses("a principal without scopes", platform({ acceptedPrincipals: [principal({ scopes: undefined })] })),
  refuses("a principal with no scope", platform({ acceptedPrincipals: [principal({ scopes: [] })] })),
  refuses("a principal with any scope", platform({ acceptedPrincipals: [principal({ scopes: ["*"] })] })),
  accepts("a key renewed every hour", platform({ keyRotation: { every: "1h" } })),
  refuses("a key renewed more often", platform({ keyRotation: { every: "59m59s" } })),
  refuses("an interval without a unit", platform({ keyRotation: { every: "3600" } })),
  refuses("an empty interval", platform({ keyRotation: { every: "" } })),
  accepts("a grace of a day", platform({ keyRotation: { every: "720h", grace: "24h" } })),
  refuses("a longer grace", platform({ keyRotation: { every: "720h", grace: "24h1s" } })),
  refuses("an unknown deletion policy", platform({ deletionPolicy: "Forget" })),
  refuses("suspend as text", platform({ suspend: "true" })),
  refuses("another surface later", platform({ surfaceType: "meetings" }), platform()),
  accepts("another name for people later", platform({ displayName: "New shop" }), platform()),
  accepts("a ceiling that shrinks", platform({ defaultAllowedScopes: ["data:read"] }), platform()),
  accepts(
    "a ceiling in another order",
    platform({ defaultAllowedScopes: ["custom:orders:refund", "comms:*", "payments:*", "data:read"] }),
    platform(),
  ),
  accepts(
    "a ceiling whose wildcard shrinks to its members",
    platform({ defaultAllowedScopes: ["payments:send", "comms:message:*", "comms:email:read"] }),
    platform(),
  ),
  refuses(
    "a ceiling that widens",
    platform({ defaultAllowedScopes: ["data:read", "data:share"] }),
    platform(),
  ),
  refuses(
    "a sensitive scope that the wildcard never granted",
    platform({ defaultAllowedScopes: ["payments:authorize"] }),
    platform(),
  ),
  refuses(
    "a sensitive scope two levels below a wildcard",
    platform({ defaultAllowedScopes: ["comms:email:delete"] }),
    platform(),
  ),
  refuses(
    "custom scopes under a custom name that looks like a wildcard",
    platform({ defaultAllowedScopes: ["custom:orders:refund"] }),
    platform({ defaultAllowedScopes: ["custom:orders:*"] }),
  ),
];

const agents: SchemaCase[] = [
  accepts("an agent", agent()),
  accepts(
    "an agent with everything",
    agent({ displayName: "Shop bot", deletionPolicy: "Delete", suspend: true }),
  ),
  refuses("an agent without a platform", agent({ platformRef: undefined })),
  refuses("a reference into another namespace", agent({ platformRef: { name: "shop", namespace: "other" } })),
  refuses("a reference without a name", agent({ platformRef: {} })),
  refuses("an unknown type", agent({ agentType: "toaster" })),
  accepts("an agent whose key the vault keeps", agent({ custodyMode: "custodial" })),
  refuses("an agent that would keep its own key", agent({ custodyMode: "self_custody" })),
  refuses("another type later", agent({ agentType: "robot" }), agent()),
  refuses("another platform later", agent({ platformRef: { name: "store" } }), agent()),
  accepts("another name for people later", agent({ displayName: "Bit" }), agent({ displayName: "Bot" })),
  refuses("an agent's name for people with a bidi control", agent({ displayName: "Bo\u202et" })),
  accepts("no name for people later", agent(), agent({ displayName: "Bot" })),
  accepts("suspending later", agent({ displayName: "Bot", suspend: true }), agent({ displayName: "Bot" })),
];

const delegations: SchemaCase[] = [
  refuses("a delegation of a custom scope of one part", delegation({ scopes: ["custom:refund"] })),
  accepts("a delegation", delegation()),
  accepts("a life of a minute", delegation({ ttl: "1m" })),
  refuses("a life of 59 seconds", delegation({ ttl: "59s" })),
  accepts("a life of ten years", delegation({ ttl: "87600h" })),
  refuses("a longer life", delegation({ ttl: "87600h1s" })),
  accepts("a life in hours, minutes and seconds", delegation({ ttl: "1h30m15s" })),
  refuses("a life in days", delegation({ ttl: "1d" })),
  refuses("a life as a number", delegation({ ttl: 3600 })),
  refuses("an empty life", delegation({ ttl: "" })),
  accepts("an end", delegation({ expiresAt: "2030-01-31T12:00:00Z" })),
  accepts("an end with an offset", delegation({ expiresAt: "2030-01-31T12:00:00.5+02:00" })),
  refuses("an end without a zone", delegation({ expiresAt: "2030-01-31T12:00:00" })),
  refuses("an end that is only a day", delegation({ expiresAt: "2030-01-31" })),
  refuses("an end on 30 February", delegation({ expiresAt: "2030-02-30T12:00:00Z" })),
  refuses("an end in a thirteenth month", delegation({ expiresAt: "2030-13-01T12:00:00Z" })),
  accepts("an end on a leap day", delegation({ expiresAt: "2032-02-29T12:00:00Z" })),
  refuses("an end on a leap day that is none", delegation({ expiresAt: "2031-02-29T12:00:00Z" })),
  refuses("a life and an end", delegation({ ttl: "1h", expiresAt: "2030-01-31T12:00:00Z" })),
  refuses("a scope twice", delegation({ scopes: ["data:read", "data:read"] })),
  refuses("65 scopes", delegation({ scopes: scopes(65) })),
  refuses("no agent", delegation({ agentRef: undefined })),
  refuses("an approver in the spec", delegation({ approvedScopes: ["data:read"] })),
  accepts("who asks", delegation({ requestedBy: "jane@example.test" })),
  accepts("a revocation with a reason", delegation({ revoked: true, revokeReason: "Left the team" })),
  refuses(
    "a reason with a zero-width space",
    delegation({ revoked: true, revokeReason: "Left\u200b the team" }),
  ),
  refuses("a reason without a revocation", delegation({ revokeReason: "Left the team" })),
  refuses("a reason with a revocation that is false", delegation({ revoked: false, revokeReason: "x" })),
];

const changedDelegations: SchemaCase[] = [
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

const circle = { type: "geo_circle", lat: 47.4, lon: 8, radius_m: 500 };
const box = { type: "geo_bbox", min_lat: -1, min_lon: -1.5, max_lat: 1, max_lon: 1 };
const path = { type: "resource_path", resource_id: "git:example/widgets" };
const constraints: SchemaCase[] = [
  accepts(
    "one constraint of every type",
    constrained(
      circle,
      {
        type: "geo_polygon",
        points: [
          [0, 0],
          [0, 1.5],
          [1, 1],
        ],
      },
      { ...box, min_alt_m: 0, max_alt_m: 120 },
      { type: "time_window", start: "09:00", end: "17:30", tz: "Europe/Zurich" },
      { type: "max_speed_mps", max_mps: 1.5 },
      { type: "max_amount", max_amount: 250, currency: "EUR" },
      { type: "max_rate", count: 10, window_s: 60 },
      { ...path, path_prefix: "/src" },
    ),
  ),
  refuses("a constraint without a type", constrained({ max_mps: 3 })),
  refuses("a constraint of an unknown type", constrained({ type: "moon_phase" })),
  refuses("a circle without a radius", constrained({ ...circle, radius_m: undefined })),
  refuses("a circle with a speed", constrained({ ...circle, max_mps: 3 })),
  refuses("a latitude of 91", constrained({ ...circle, lat: 91 })),
  accepts("a circle at the pole", constrained({ ...circle, lat: -90 })),
  refuses(
    "a polygon of two points",
    constrained({
      type: "geo_polygon",
      points: [
        [0, 0],
        [0, 1],
      ],
    }),
  ),
  refuses(
    "a point of three numbers",
    constrained({
      type: "geo_polygon",
      points: [
        [0, 0, 0],
        [0, 1],
        [1, 1],
      ],
    }),
  ),
  refuses(
    "a point whose latitude is 91",
    constrained({
      type: "geo_polygon",
      points: [
        [91, 0],
        [0, 1],
        [1, 1],
      ],
    }),
  ),
  accepts(
    "a point whose longitude is 180",
    constrained({
      type: "geo_polygon",
      points: [
        [90, 180],
        [0, 1],
        [1, 1],
      ],
    }),
  ),
  refuses("a box without a corner", constrained({ ...box, max_lon: undefined })),
  refuses("an altitude without a box", constrained({ ...circle, min_alt_m: 3 })),
  refuses("25 o'clock", constrained({ type: "time_window", start: "25:00", end: "17:00", tz: "UTC" })),
  refuses("a window without a zone", constrained({ type: "time_window", start: "09:00", end: "17:00" })),
  refuses("a negative amount", constrained({ type: "max_amount", max_amount: -1, currency: "EUR" })),
  refuses("an amount without a currency", constrained({ type: "max_amount", max_amount: 1 })),
  refuses("a rate of nothing", constrained({ type: "max_rate", count: 0, window_s: 60 })),
  refuses("a rate with a fraction", constrained({ type: "max_rate", count: 1.5, window_s: 60 })),
  refuses("a path without a resource", constrained({ type: "resource_path", path_prefix: "/src" })),
  refuses("a relative path", constrained({ ...path, path_prefix: "src" })),
  accepts("a resource of any script", constrained({ ...path, resource_id: "订单 4711/é" })),
  accepts("a path of any script", constrained({ ...path, path_prefix: "/ä b/" })),
  accepts("the path of everything", constrained({ ...path, path_prefix: "/" })),
  refuses("a turned resource", constrained({ ...path, resource_id: "\u202e1174-redro" })),
  refuses("a resource with a line break", constrained({ ...path, resource_id: "a\nb" })),
  refuses("a resource that ends in a space", constrained({ ...path, resource_id: "order " })),
  refuses("a path with a zero-width space", constrained({ ...path, path_prefix: "/or\u200bders" })),
  refuses("a path with a line break", constrained({ ...path, path_prefix: "/a\nb" })),
  refuses("a path with a backslash", constrained({ ...path, path_prefix: "/a\\b" })),
  accepts("32 constraints", constrained(...Array.from({ length: 32 }, () => circle))),
  refuses("33 constraints", constrained(...Array.from({ length: 33 }, () => circle))),
];

const LARGEST_WHOLE = 9_007_199_254_740_991;
const polygon = (corners: number): Changes => ({
  type: "geo_polygon",
  points: Array.from({ length: corners }, (_, index) => [index / 10, index / 10]),
});
const bounds: SchemaCase[] = [
  accepts("1,024 corners together", constrained(...Array.from({ length: 4 }, () => polygon(256)))),
  refuses(
    "1,025 corners together",
    constrained(...Array.from({ length: 4 }, () => polygon(255)), polygon(5)),
  ),
  accepts("a polygon of 256 corners", constrained(polygon(256))),
  refuses("a polygon of 257 corners", constrained(polygon(257))),
  accepts(
    "8,192 characters of resources and paths together",
    constrained(
      ...Array.from({ length: 16 }, () => ({
        ...path,
        resource_id: "é".repeat(256),
        path_prefix: `/${letters(255)}`,
      })),
    ),
  ),
  refuses(
    "8,193 characters of resources and paths together",
    constrained(
      ...Array.from({ length: 16 }, () => ({
        ...path,
        resource_id: "é".repeat(256),
        path_prefix: `/${letters(255)}`,
      })),
      { ...path, resource_id: "a" },
    ),
  ),
  accepts("a resource of 512 bytes", constrained({ ...path, resource_id: "é".repeat(256) })),
  refuses("a resource of 513 bytes", constrained({ ...path, resource_id: `${"é".repeat(256)}a` })),
  accepts("a rate over a year", constrained({ type: "max_rate", count: 1, window_s: 31_536_000 })),
  refuses("a rate over more than a year", constrained({ type: "max_rate", count: 1, window_s: 31_536_001 })),
  ...[
    ["radius_m", circle],
    ["max_mps", { type: "max_speed_mps" }],
    ["max_amount", { type: "max_amount", currency: "EUR" }],
    ["max_alt_m", box],
  ].flatMap(([field, rest]) => [
    accepts(`the largest ${field}`, constrained({ ...(rest as Changes), [field as string]: LARGEST_WHOLE })),
    refuses(
      `a ${field} of which the wire format has no form`,
      constrained({ ...(rest as Changes), [field as string]: LARGEST_WHOLE + 1 }),
    ),
  ]),
  accepts("the lowest altitude", constrained({ ...box, min_alt_m: -LARGEST_WHOLE })),
  refuses("an altitude below the lowest", constrained({ ...box, min_alt_m: -LARGEST_WHOLE - 1 })),
];

/** Texts by which people approve: what is hidden in one may make it look like another. */
const hidingNames: [string, (text: string) => Manifest][] = [
  ["a Platform's name for people", (displayName) => platform({ displayName })],
  ["an Agent's name for people", (displayName) => agent({ displayName })],
  ["a resource", (resource_id) => constrained({ ...path, resource_id })],
  ["a path", (text) => constrained({ ...path, path_prefix: `/${text}` })],
  ["who asks", (requestedBy) => delegation({ requestedBy })],
  ["who approves", (username) => withStatus(approval({ approver: { username } }))],
];
const controls: SchemaCase[] = [
  ...hidingNames.flatMap(([name, make]) => [
    ...["b\u202ea", "b\u2066a", "b\u200ba", "b\ufeffa", "b\u200ca", "b\u200da", "b\u200d"].map((text) =>
      refuses(`${name} with ${JSON.stringify(text)}`, make(text)),
    ),
    ...["b\ufe0fa", "b\u{e0101}a", "b\u3000a", "\u0645\u200c\u200d\u062e", "\u0645\u200ca", "a\nb", "a "].map(
      (text) => refuses(`${name} with ${JSON.stringify(text)}`, make(text)),
    ),
    ...["\u0645\u06cc\u200c\u062e", "\u2764\ufe0f\u200d\u{1f525}", "1\ufe0f\u20e3", "\u00a9\ufe0f b"].map(
      (text) => accepts(`${name} with ${JSON.stringify(text)}`, make(text)),
    ),
    ...[
      "\u8fbb\u{e0100}",
      "\u6f22\u3000\u5b57",
      "system:serviceaccount:a:b",
      "Jane Doe <jane@example.test>",
    ].map((text) => accepts(`${name} with ${JSON.stringify(text)}`, make(text))),
  ]),
  accepts("an agent's name for people of 256 bytes", agent({ displayName: "\u{1f525}".repeat(64) })),
  refuses("an agent's name for people of 260 bytes", agent({ displayName: "\u{1f525}".repeat(65) })),
  accepts("an approval with a message", withStatus(approval({ message: "Fine.\nUntil May." }))),
  refuses("an approval with a hiding message", withStatus(approval({ message: "Fi\u202ene" }))),
];

const statuses: SchemaCase[] = [
  accepts("an approval", withStatus(approval())),
  accepts("a denial", withStatus(approval({ decision: "Denied", approvedScopes: undefined }))),
  refuses("a denial with scopes", withStatus(approval({ decision: "Denied" }))),
  refuses("an approval without scopes", withStatus(approval({ approvedScopes: undefined }))),
  refuses("an approval of nothing", withStatus(approval({ approvedScopes: [] }))),
  refuses("an approval without an approver", withStatus(approval({ approver: undefined }))),
  refuses(
    "an approval of a scope that was not asked for",
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
    "another approval",
    withStatus(approval({ approvedScopes: ["payments:*"] })),
    withStatus(approval()),
  ),
  refuses("taking an approval back", withStatus({ observedGeneration: 1 }), withStatus(approval())),
  accepts("a certificate", withStatus({ certID: "cert-1" }), withStatus({ observedGeneration: 1 })),
  accepts("another certificate", withStatus({ certID: "cert-2" }), withStatus({ certID: "cert-1" })),
  accepts("no certificate any more", withStatus({ observedGeneration: 2 }), withStatus({ certID: "cert-1" })),
  accepts("conditions", withStatus({ conditions: [condition(), condition({ type: "Issued" })] })),
  refuses("a condition twice", withStatus({ conditions: [condition(), condition()] })),
  refuses("a condition that is Maybe", withStatus({ conditions: [condition({ status: "Maybe" })] })),
  refuses("an unknown field in the status", withStatus({ phase: "Ready" })),
];

/** Good and bad objects, both sides of each limit. */
export const schemaCases: SchemaCase[] = [
  ...metadata,
  ...platforms,
  ...agents,
  ...delegations,
  ...changedDelegations,
  ...constraints,
  ...bounds,
  ...controls,
  ...statuses,
].map(withoutUndefined);

/** As YAML would give it: members that are undefined are absent. */
function withoutUndefined(schemaCase: SchemaCase): SchemaCase {
  return JSON.parse(JSON.stringify(schemaCase)) as SchemaCase;
}
