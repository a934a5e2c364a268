import type { MemberRole } from "../../route.ts";

const ROLES: Record<MemberRole, string> = {
  owner: "owner",
  approver: "approver",
  developer: "developer",
  auditor: "auditor",
};

const ROLE_HINTS: Record<MemberRole, string> = {
  owner:
    "Does everything. Only owners change members and domains, publish platforms, and decide whose authority platforms accept.",
  approver: "Sees what agents ask for; approves, narrows, denies and revokes.",
  developer: "Makes platforms, agents and keys; asks for delegations, and approves none.",
  auditor: "Reads everything but secrets, and who did what; changes nothing.",
};

/** Texts about the account that a person acts for. */
export const ACTING = {
  label: "Acting for",
  nobody: "nobody",
  roles: ROLES,
  roleHints: ROLE_HINTS,
  signedInAs: "Signed in as",
  choose: "Act for",
  yourAccount: "Your account",
  strangerTitle: "You cannot act for this account",
  stranger:
    "You are not a member of this organization. If you should be, ask one of its owners for an invitation. Nothing was shown, and nothing was changed.",
  yourAccounts: "See for whom you may act",
};

/** Texts of the page about the signed-in person. */
export const OWN_ACCOUNT = {
  title: "Your account",
  name: "Name",
  changeName: "Change your name",
  nameTitle: "Your name",
  nameLead: "Members of your organizations see your name. Mails that were already sent keep the former name.",
  saveName: "Save",
  email: "E-mail address",
  emailHint: "You sign in with it; codes and mails go there.",
  type: "Account",
  types: { individual: "Your own", organization: "Of an organization" },
  identity: "Root identity",
  identityHint: "Approvals of this account are signed by its key, which is kept in the key vault.",
  actsTitle: "For whom you act",
  actsLead: "You act for one account at a time. The top of each page says for which.",
  acts: "Accounts that you may act for",
  account: "Account",
  role: "Role",
  may: "What you may do",
  credit: "Credit",
  levels: { enough: "Enough", low: "Low", exhausted: "Used up" },
  itself: (name: string) => `${name} (your own account)`,
  everything: "Everything",
  current: "You act for it now",
  none: "You may act for nobody at the moment. With an invitation you become a member of an organization.",
  joinTitle: "Join an organization",
  join: "Were you invited by mail? The mail has a link and a code.",
  joinLink: "Accept an invitation",
  sessionsTitle: "Where you are signed in",
  sessions: "A session lasts 15 minutes and is renewed while you work.",
  device: (name: string | null, isThis: boolean) =>
    `${name ?? "Device not known"}${isThis ? " (this browser)" : ""}`,
  signedInAt: "Signed in on",
  usedAt: "Last used around",
  endWhich: "End one of them",
  endHint: "If you do not know one, end it. Then check what was approved in your name.",
  endOne: "Sign it out",
  signOut: "Sign out, here or everywhere",
};

/** Texts of the pages about an organization and its members. */
export const ORGANIZATION = {
  navigation: "Organization",
  facts: "At a glance",
  yourRole: "Your role",
  since: "Since",
  fourEyes: "Four eyes",
  fourEyesOn: "On: the person who asked for a delegation may not approve it; somebody else does.",
  fourEyesOff: "Off: the person who asked for a delegation may approve it too, if their role allows it.",
  connecting: "Connecting products",
  connectors: {
    owners_and_approvers: "Owners and approvers may connect a product.",
    owners: "Only owners may connect a product.",
  },
  identity: "Root identity",
  identityHint:
    "Approvals for the organization are signed by its key. Give it to people who should accept the organization's authority. Your own root identity, under Your account, is another one.",
  domains: "Domains",
  activity: "Who did what",
  settings: "Change name and rules",
  leave: "Leave the organization",
  members: "Members",
  member: "Member",
  role: "Role",
  joined: "Member since",
  you: "you",
  actions: "What you can do",
  change: "Change or remove",
  invite: "Invite somebody",
  invitations: "Invitations that wait",
  invitationsLead: "They were sent by mail. Each ends after 7 days.",
  noInvitations: "No invitation waits.",
  invited: "Invited",
  invitedBy: "Invited by",
  ends: "Ends",
  withdrawTitle: "Withdraw an invitation",
  withdraw: "Withdraw the invitation",
  withdrawLead: (email: string) => `The code that ${email} got by mail no longer works.`,
  rolesTitle: "Who may do what",
  roles: "Roles and what they may do",
  mayDo: "May do",
  settingsTitle: "Name and rules",
  name: "Name of the organization",
  nameHint: "Members see it, and everybody whom its platforms ask for something.",
  rename: "Change the name",
  fourEyesTitle: "Four eyes",
  fourEyesLabel: "The person who asked for a delegation may not approve it",
  fourEyesHint:
    "Another owner or approver does. Requests that a cluster declares are then decided in the cluster. Owners can switch this off again; the activity shows that.",
  saveFourEyes: "Save",
  connectingLabel: "Who may connect a product of another company",
  saveConnecting: "Save",
  connectingHint: "The change does not end existing connections.",
  inviteTitle: "Invite somebody",
  inviteLead:
    "They get a mail with a link and a code, sign in with this address, see who invites them, and accept. Until then nothing happens.",
  inviteEmail: "E-mail address",
  inviteLimits:
    "An organization invites an address 3 times a day at most, sends 30 a day and has 200 members and open invitations at most. Inviting an address again replaces its invitation.",
  send: "Send the invitation",
  memberTitle: (name: string) => `Member: ${name}`,
  roleTitle: "Another role",
  roleLead: "It counts from their next click on.",
  saveRole: "Change the role",
  removeTitle: "Remove",
  remove: "Remove from the organization",
  removeLead:
    "They may do nothing for the organization from their next click on. What they did stays. API keys and secrets that they saw stay good: replace those.",
  setupsTitle: "What this person set up",
  setupsLead:
    "All of it ends when the person leaves or is removed. With another role than owner, links to other members and confirmations end. An owner takes over what should go on: link the user again, save the namespace or the connection again, accept again, or confirm again.",
  setupKinds: {
    accepted_principals: "Authority of others that a platform accepts",
    cluster_approver: "User of a cluster who decides",
    namespace_binding: "Namespace that acts for the organization",
    outside_verifiers: "Verifiers elsewhere whose challenges agents answer",
    product_approval: "Approval of a product that developers may connect",
    request_channel: "Channel that gets new requests",
    platform_adoption: "Confirmation that an object may take over a platform",
    agent_adoption: "Confirmation that an object may take over an agent",
  },
  leaveEnds: "What you set up ends, unless another owner takes it over first:",
  itsYou: "This is you.",
  lastOwner:
    "An organization always has an owner, and this is the only one: make another member an owner first. Until then this role cannot change, and this member can neither leave nor be removed.",
  leaveTitle: "Leave the organization",
  leaveLead: (name: string) =>
    `You will not be able to act for ${name} any more, unless an owner invites you again. What you did stays.`,
  leaveButton: "Leave",
};

/** Texts of the page on which a person accepts an invitation. */
export const INVITATION = {
  title: "Accept an invitation",
  lead: "You were invited by mail to act for an organization. Open the link of the mail, or paste its code here: you see what it is before you accept.",
  code: "Code of the invitation",
  codeHint: "64 characters, in the mail.",
  look: "Look at it",
  foundTitle: (name: string) => `Act for ${name}?`,
  invitedBy: "Invited by",
  as: "As",
  mayDo: "You will be able to",
  ends: "The invitation ends",
  note: "Your own account stays as it is. Members of the organization will see your name and your e-mail address. You can leave at any time.",
  accept: "Accept",
  notNow: "Not now",
};

/** Texts of the pages about the domains under which an organization publishes. */
export const DOMAINS = {
  title: "Domains",
  lead: "A verified domain shows others who publishes a platform. You show that a domain is yours by a TXT record in its DNS.",
  list: "Domains of the organization",
  domain: "Domain",
  state: "State",
  checked: "Last check",
  never: "never",
  none: "The organization has no domain yet. Platforms can be published once one is verified.",
  verified: "Verified",
  waiting: "Waits for its record",
  failing: "Record is missing",
  addTitle: "Add a domain",
  addLabel: "Domain",
  addHint:
    "Such as example.com. Subdomains of a verified domain are not verified. An organization has at most 20 domains.",
  add: "Add the domain",
  invalid:
    "Give a domain that people can register, such as example.com; no address, and no ending such as co.uk",
  recordTitle: "The record",
  recordLead:
    "Publish this TXT record where the domain's DNS is kept, and leave it there: it is looked up every day.",
  type: "Type",
  name: "Name",
  nameHint: "Some providers want the name without the domain at its end.",
  value: "Value",
  check: "Check now",
  checkHint: "A new record may take minutes, sometimes hours, until everybody sees it.",
  checkAgain: "Check again now",
  since: "Verified since",
  added: "Added",
  failingSince: (days: number) =>
    `The record was not found. After ${days} days of this the domain is no longer verified, and its platforms are suspended.`,
  publishTitle: "Platforms under this domain",
  publishes: "A platform is published on its own page.",
  platforms: "Your platforms",
  nothingPublished: "No platform is published under it.",
  removeTitle: "Remove the domain",
  removeLead: "The organization no longer publishes under it.",
  removeSuspends: "These platforms are published under it, and will be suspended:",
  remove: "Remove the domain",
};
