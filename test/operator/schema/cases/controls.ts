import {
  accepts,
  agent,
  approval,
  constrained,
  delegation,
  type Manifest,
  path,
  platform,
  refuses,
  type SchemaCase,
  withStatus,
} from "./manifests.ts";

/** Texts that approvers rely on. Hidden characters could make one text look like another. */
const hidingNames: [string, (text: string) => Manifest][] = [
  ["a Platform's display name", (displayName) => platform({ displayName })],
  ["an Agent's display name", (displayName) => agent({ displayName })],
  ["a resource", (resource_id) => constrained({ ...path, resource_id })],
  ["a path", (text) => constrained({ ...path, path_prefix: `/${text}` })],
  ["a requester's name", (requestedBy) => delegation({ requestedBy })],
  ["a purpose", (purpose) => delegation({ purpose })],
  ["an approver's name", (username) => withStatus(approval({ approver: { username } }))],
];
export const controls: SchemaCase[] = [
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
  accepts("an agent's display name of 256 bytes", agent({ displayName: "\u{1f525}".repeat(64) })),
  refuses("an agent's display name of 260 bytes", agent({ displayName: "\u{1f525}".repeat(65) })),
  accepts("an approval with a message", withStatus(approval({ message: "Fine.\nUntil May." }))),
  refuses("an approval whose message has a direction mark", withStatus(approval({ message: "Fi\u202ene" }))),
];
