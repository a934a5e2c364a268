import { accepts, agent, refuses, type SchemaCase } from "./manifests.ts";

export const agents: SchemaCase[] = [
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
  accepts("an agent that takes one over", agent({ adopt: "0123456789abcdef0123456789abcdef" })),
  refuses("taking over what is no agent's id", agent({ adopt: "0123456789ABCDEF0123456789abcdef" })),
  refuses("taking over an agent's id and more", agent({ adopt: "0123456789abcdef0123456789abcdef0" })),
  accepts("taking over no longer said later", agent(), agent({ adopt: "0123456789abcdef0123456789abcdef" })),
  refuses("an agent's name for people with a bidi control", agent({ displayName: "Bo\u202et" })),
  accepts("no name for people later", agent(), agent({ displayName: "Bot" })),
  accepts("suspending later", agent({ displayName: "Bot", suspend: true }), agent({ displayName: "Bot" })),
];
