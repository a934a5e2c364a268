import { accepts, agent, refuses, type SchemaCase } from "./manifests.ts";

export const agents: SchemaCase[] = [
  accepts("an agent", agent()),
  accepts(
    "an agent with all fields",
    agent({ displayName: "Shop bot", deletionPolicy: "Delete", suspend: true }),
  ),
  refuses("an agent without a platform", agent({ platformRef: undefined })),
  refuses(
    "a reference into a different namespace",
    agent({ platformRef: { name: "shop", namespace: "other" } }),
  ),
  refuses("a reference without a name", agent({ platformRef: {} })),
  refuses("an unknown type", agent({ agentType: "toaster" })),
  accepts("an agent whose key the vault keeps", agent({ custodyMode: "custodial" })),
  refuses("an agent that would keep its own key", agent({ custodyMode: "self_custody" })),
  refuses("a change of the type", agent({ agentType: "robot" }), agent()),
  refuses("a change of the platform", agent({ platformRef: { name: "store" } }), agent()),
  accepts("a change of the display name", agent({ displayName: "Bit" }), agent({ displayName: "Bot" })),
  accepts("an agent that adopts an existing agent", agent({ adopt: "0123456789abcdef0123456789abcdef" })),
  refuses("an adopted id with capitals", agent({ adopt: "0123456789ABCDEF0123456789abcdef" })),
  refuses("an adopted id that is too long", agent({ adopt: "0123456789abcdef0123456789abcdef0" })),
  accepts("the removal of the adopted id", agent(), agent({ adopt: "0123456789abcdef0123456789abcdef" })),
  refuses("an agent's display name with a bidi control", agent({ displayName: "Bo\u202et" })),
  accepts("the removal of the display name", agent(), agent({ displayName: "Bot" })),
  accepts(
    "suspending an existing agent",
    agent({ displayName: "Bot", suspend: true }),
    agent({ displayName: "Bot" }),
  ),
];
