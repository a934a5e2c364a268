/** Texts of the pages about agents. */
export const AGENTS = {
  title: "Agents",
  lead: "Programs that act for you. An agent may do only what its delegations allow.",
  filter: "Filter the list",
  search: "Search",
  searchHint: "Agent or platform, or a whole id",
  state: "State",
  states: { live: "In use", deleted: "Deleted" },
  ofConnection: "Of one connection only.",
  agent: "Agent",
  platform: "Platform",
  active: "Active delegations",
  made: "Made",
  deletedAt: "Deleted",
  empty: "There are no agents yet.",
  nothing: "No agent matches the filter.",
  newTitle: "A new agent",
  newLead:
    "You make an agent here. An application can also make its agents with its API key, and an Agent object in a cluster declares one.",
  name: "Name",
  nameHint: "People see it when the agent asks for permission.",
  kind: "Kind",
  kinds: {
    api_agent: "A program that calls APIs",
    voice_agent: "A voice agent",
    meeting_bot: "A meeting bot",
    mcp_server: "An MCP server",
    robot: "A robot",
    custom: "Another kind",
  },
  submitNew: "Make the agent",
  noPlatform: "First register a platform.",
  toPlatforms: "Register a platform",
};

/** Texts of the page about one agent. */
export const AGENT = {
  lead: (platform: string) => `An agent of the platform ${platform}.`,
  deletedLead: "It is deleted: its key is disabled for good, and its delegations are revoked.",
  about: "About it",
  platform: "Platform",
  connection: "Connection",
  toConnection: "its API key and callbacks",
  type: "Kind",
  key: "Key fingerprint",
  custody: {
    custodial: "Its key is made and kept in the key vault here, and never leaves it.",
    self_custody: "It keeps its key itself.",
  },
  made: "Made",
  deletedAt: "Deleted",
  id: "Agent id",
  declared: "Declared by",
  declaredBy: (name: string, cluster: string) => `the Agent ${name} in the cluster ${cluster}`,
  delegations: "Delegations",
  noDelegations: "It has no delegation yet, so every check of it is denied.",
  allDelegations: "All of its delegations",
  history: "Its decisions in the history",
  adoptionLead: "An Agent object in a cluster may take this agent over, once an owner has confirmed it.",
  adoptionExplain: (name: string) =>
    `Confirm which object may take ${name} over. From then on the object declares it; its key and its delegations stay as they are. A confirmation can be used once.`,
  adoptionSpec: "The object names this agent:",
  remove: "Delete it",
  removeTitle: (name: string) => `Delete the agent ${name}`,
  removeLead: "This cannot be taken back.",
  removes: (active: number) => [
    "Its key in the vault is disabled for good: it can no longer prove anything.",
    active === 0
      ? "It has no active delegation."
      : active === 1
        ? "Its active delegation is revoked, and every check of it denied from then on."
        : `Its ${active} active delegations are revoked, and every check of them denied from then on.`,
    "Requests that wait for a decision are withdrawn.",
  ],
  keeps: "Its history stays.",
  removeDeclared: (name: string, cluster: string) =>
    `The Agent ${name} in the cluster ${cluster} declares it. The object stays there and reports Revoked; it makes no other agent. Delete the object as well, or delete only the object.`,
  removeSure: (name: string) => `Yes, ${name} shall never act again`,
  removeNotSure: "Tick it to say that you are sure",
  removeSubmit: "Delete the agent",
  already: "It is deleted already.",
};

/** Texts of the pages on which an owner lets a cluster object adopt an agent or a platform. */
export const ADOPTION = {
  about: "Hand it over to Kubernetes",
  link: "Choose the object",
  title: (name: string) => `Hand ${name} over to Kubernetes`,
  none: "No object may take it over at the moment.",
  waiting: "This object may take it over",
  cluster: "Cluster",
  clusterHint: "As the operator's settings name it.",
  namespace: "Namespace",
  name: "Name of the object",
  confirmedAt: "Confirmed",
  confirmedBy: "Confirmed by",
  confirm: "Confirm an object",
  withdraw: "Withdraw the confirmation",
  ownersOnly: "Only owners confirm it.",
};

/** Notices of the pages about agents and adoption. */
export const AGENT_NOTICES = {
  agent_made: "The agent is ready. Next, ask for a permission for it.",
  agent_deleted: "The agent is deleted, and its delegations are revoked.",
  agent_adoption_confirmed: "Confirmed. The object may take the agent over, once.",
  agent_adoption_withdrawn: "Withdrawn. No object may take the agent over.",
};

/** Texts of the list of first steps on the home page. */
export const FIRST_STEPS = {
  title: "Your first steps",
  lead: "Lend an agent a permission, and check its proof. This list disappears after the first check that is allowed.",
  done: "Done",
  platform: "Register a platform",
  agent: "Make an agent",
  request: "Ask for a permission",
  approve: "Approve the request",
  verify: "Check the agent's proof",
  calls: "The same with curl or TypeScript",
  curl: "In a shell, with the platform's API key in $API_KEY:",
  typeScript: "In TypeScript:",
  programs: "The same in your programs",
  application: "The application checks each proof before it acts:",
  actingAgent: "The agent proves each of its requests:",
};
